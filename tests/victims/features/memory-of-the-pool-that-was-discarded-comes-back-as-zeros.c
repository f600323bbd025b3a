/* Private memory on huge pages from the system's pool that the program has discarded (MADV_DONTNEED) and then read holds zeros
 * after a restart, not what it held at the checkpoint before.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, LIVES = 3 };

int main(void)
{
    char *map = mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << MAP_HUGE_SHIFT, -1, 0);
    if (map == MAP_FAILED)
        LACKS("huge pages in its pool (vm.nr_hugepages)");
    for (int life = 0; life < LIVES; life++) {
        memset(map, 'a' + life, HUGE_PAGE);
        map[HUGE_PAGE] = 'x';
        moment("filled");
        CHECK(madvise(map, HUGE_PAGE, MADV_DONTNEED) == 0);
        CHECK(*(volatile char *)map == 0);
        moment("discarded and read");
        for (int i = 0; i < HUGE_PAGE; i += 64)
            CHECK(map[i] == 0);
        CHECK(map[HUGE_PAGE] == 'x');
        moment("read again");
        for (int i = 0; i < HUGE_PAGE; i += 64)
            CHECK(map[i] == 0);
    }
    CHECK(munmap(map, 2 * HUGE_PAGE) == 0);
    puts("zeros");
    return 0;
}
