/* Guarded pages (MADV_GUARD_INSTALL) stay guarded, hold nothing once the guard is gone, and their neighbours are kept.
 *
 * expect: survive
 */
#include "guards.h"

enum { PAGE = 4096, PAGES = 32 };

int main(void)
{
    char *map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    memset(map, 'x', PAGES * PAGE);
    if (madvise(map, 2 * PAGE, MADV_GUARD_INSTALL) != 0)
        LACKS("guarded pages (Linux 6.13)");
    CHECK(madvise(map + 10 * PAGE, PAGE, MADV_GUARD_INSTALL) == 0);
    for (int life = 0; life < 2; life++) {
        moment("guarded");
        for (int i = 0; i < PAGES; i++)
            CHECK(faults(map + i * PAGE) == (i < 2 || i == 10));
    }
    CHECK(madvise(map, PAGES * PAGE, MADV_GUARD_REMOVE) == 0);
    moment("no longer guarded");
    for (int i = 0; i < PAGES; i++)
        CHECK(map[i * PAGE] == (i < 2 || i == 10 ? 0 : 'x'));
    puts("guarded");
    return 0;
}
