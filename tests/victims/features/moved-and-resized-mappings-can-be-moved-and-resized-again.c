/* A mapping that was moved and resized keeps its contents, and can be moved, grown and split again after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096 };

int main(void)
{
    char *map = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *room = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && room != MAP_FAILED);
    for (int i = 0; i < 8; i++)
        memset(map + i * PAGE, '0' + i, PAGE);
    map = mremap(map, 8 * PAGE, 12 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    CHECK(map == room);
    moment("moved");
    map = mremap(map, 12 * PAGE, 20 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room + 30 * PAGE);
    CHECK(map == room + 30 * PAGE);
    CHECK(munmap(map + 3 * PAGE, PAGE) == 0 && mprotect(map + 5 * PAGE, PAGE, PROT_READ) == 0);
    moment("moved, grown and split");
    for (int i = 0; i < 20; i++)
        if (i != 3)
            CHECK(map[i * PAGE] == (i < 8 ? '0' + i : 0) && map[i * PAGE + PAGE - 1] == map[i * PAGE]);
    /* The hole is a hole: MAP_FIXED_NOREPLACE finds it free. */
    CHECK(mmap(map + 3 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
          map + 3 * PAGE);
    char *once_more = mremap(map + 6 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    CHECK(once_more == room && room[0] == '6' && room[PAGE] == '7');
    puts("moved about");
    return 0;
}
