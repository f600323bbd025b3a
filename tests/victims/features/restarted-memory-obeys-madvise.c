/* Anonymous memory behaves as such after a restart: MADV_DONTNEED empties it, MADV_FREE and MADV_WILLNEED are taken.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>

enum { BYTES = 64 * 4096 };

int main(void)
{
    char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    memset(map, 'm', BYTES);
    moment("filled");
    CHECK(madvise(map, BYTES / 2, MADV_DONTNEED) == 0);
    for (int i = 0; i < BYTES; i++)
        CHECK(map[i] == (i < BYTES / 2 ? 0 : 'm'));
    CHECK(madvise(map + BYTES / 2, BYTES / 4, MADV_FREE) == 0);
    moment("partly free");
    for (int i = 0; i < BYTES; i++) {
        if (i < BYTES / 2)
            CHECK(map[i] == 0);
        else if (i < BYTES / 4 * 3)
            CHECK(map[i] == 0 || map[i] == 'm');
        else
            CHECK(map[i] == 'm');
    }
    CHECK(madvise(map, BYTES, MADV_WILLNEED) == 0 && munmap(map, BYTES) == 0);
    puts("advice taken");
    return 0;
}
