/* Advice about memory that a thread changes all the time is after a restart what it was at the stop: a child finds the memory
 * empty if that was said last, and filled otherwise. Such a program has its checkpoints too.
 *
 * expect: survive
 * flags: -pthread
 */
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096, WIPED = 1, FILLED = 2 };

static char *map;
static volatile int is_over;
static volatile unsigned turns;

static void *change_its_mind(void *unused)
{
    for (int wipes = 0; !is_over; wipes = !wipes) {
        int status;
        CHECK(madvise(map, PAGE, wipes ? MADV_WIPEONFORK : MADV_KEEPONFORK) == 0);
        pid_t child = fork();
        if (child == 0)
            _exit(map[0] == 0 ? WIPED : FILLED);
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (wipes ? WIPED : FILLED));
        turns++;
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    map[0] = 'x';
    CHECK(pthread_create(&thread, NULL, change_its_mind, NULL) == 0);
    for (int life = 0; life < 4; life++) {
        for (unsigned first = turns; turns < first + 8;)
            usleep(100);
        moment("changing");
        CHECK(map[0] == 'x');
    }
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("as it was said last");
    return 0;
}
