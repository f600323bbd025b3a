/* Mappings that grow downwards (MAP_GROWSDOWN) keep their contents and grow on, also the stack of a thread and one with a
 * neighbour right below it.
 *
 * expect: survive
 */
#include "mapped.h"
#include <pthread.h>
#include <sys/mman.h>

enum { PAGE = 4096, FIRST = 4 * PAGE, ROOM = 8 << 20 };

static volatile int deep, go_on;

/* Maps a few pages in the middle of free space. */
static char *growing(void)
{
    char *room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(room != MAP_FAILED && munmap(room, ROOM) == 0);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_GROWSDOWN;
    char *map = mmap(room + ROOM / 2, FIRST, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(map == room + ROOM / 2 && has_flag(map, " gd"));
    return map;
}

static void *on_own_stack(void *unused)
{
    volatile char room[2 * PAGE];
    memset((char *)room, 'r', sizeof room);
    deep = 1;
    await(&go_on);
    for (size_t i = 0; i < sizeof room; i++)
        CHECK(room[i] == 'r');
    return unused;
}

int main(void)
{
    char *map = growing(), *beside = growing(), *stack = growing();
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    char *below = mmap(beside - PAGE, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(below == beside - PAGE);
    memset(below, 'b', PAGE);
    memset(beside, 's', FIRST);
    memset(map, 'm', FIRST);
    map[-100] = 1;
    pthread_t thread;
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack - 16 * PAGE, 20 * PAGE) == 0);
    memset(stack - 3 * PAGE, 0, PAGE);
    CHECK(pthread_create(&thread, &attributes, on_own_stack, NULL) == 0);
    await(&deep);
    for (int life = 1; life < 3; life++) {
        moment("grown");
        CHECK(map[-100] == 1 && map[0] == 'm' && map[FIRST - 1] == 'm' && has_flag(map, " gd"));
        CHECK(has_flag(beside, " gd") && !has_flag(below, " gd") && has_flag(stack, " gd"));
        for (int i = 0; i < FIRST; i++)
            CHECK(beside[i] == 's' && below[i % PAGE] == 'b');
        CHECK(map[-20000 * life] == 0);
        map[-20000 * life - 100 * PAGE] = 2;
        CHECK(map[-20000 * life - 50 * PAGE] == 0);
    }
    go_on = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("grown");
    return 0;
}
