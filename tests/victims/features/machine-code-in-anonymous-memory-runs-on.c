/* Code that the program wrote into memory (as a just-in-time compiler does) is there and executable after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>

typedef int (*function)(int);

int main(void)
{
    /* lea eax, [rdi + 42]; ret */
    static const unsigned char code[] = {0x8d, 0x47, 0x2a, 0xc3};
    unsigned char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    memcpy(map, code, sizeof code);
    CHECK(mprotect(map, 4096, PROT_READ | PROT_EXEC) == 0);
    function add = (function)(uintptr_t)map;
    CHECK(add(1) == 43);
    moment("compiled");
    CHECK(add(58) == 100);
    CHECK(mprotect(map, 4096, PROT_READ | PROT_WRITE) == 0);
    map[2] = 0x2b;
    CHECK(mprotect(map, 4096, PROT_READ | PROT_EXEC) == 0 && add(0) == 43);
    moment("compiled again");
    CHECK(add(57) == 100);
    puts("computed by code of our own");
    return 0;
}
