/* Mappings at addresses of the program's own choice, very low and very high ones, are where they were.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>

int main(void)
{
    static const uintptr_t places[] = {0x10000, 0x20000000, 0x100000000, 0x7000000000, 0x10000000000, 0x700000000000};
    enum { COUNT = sizeof places / sizeof *places };
    int is_there[COUNT], there = 0;
    for (int i = 0; i < COUNT; i++) {
        char *map = mmap((void *)places[i], 8192, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        is_there[i] = map == (void *)places[i];
        there += is_there[i];
        if (is_there[i])
            memset(map, i + 1, 8192);
    }
    CHECK(there >= 3);
    moment("mapped");
    for (int i = 0; i < COUNT; i++)
        for (int at = 0; is_there[i] && at < 8192; at++)
            CHECK(((char *)places[i])[at] == i + 1);
    puts("in place");
    return 0;
}
