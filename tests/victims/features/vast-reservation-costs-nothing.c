/* A reservation of a terabyte with a few pages in use is carried over with just these pages.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>

int main(void)
{
    const uint64_t bytes = 1ull << 40, step = bytes / 16;
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        LACKS("a terabyte of addresses");
    for (int i = 0; i < 16; i++)
        map[i * step + 5] = (char)(i + 1);
    moment("reserved");
    for (int i = 0; i < 16; i++)
        CHECK(map[i * step + 5] == i + 1 && map[i * step + 4096] == 0 && map[i * step + step / 2] == 0);
    CHECK(mprotect(map, bytes, PROT_NONE) == 0);
    moment("reserved without access");
    CHECK(mprotect(map, bytes, PROT_READ) == 0);
    for (int i = 0; i < 16; i++)
        CHECK(map[i * step + 5] == i + 1);
    CHECK(munmap(map, bytes) == 0);
    puts("a terabyte");
    return 0;
}
