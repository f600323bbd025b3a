/* Private memory on huge pages from the system's pool (MAP_HUGETLB) comes back on such pages with what it held.
 *
 * expect: survive
 */
#include "mapped.h"
#include <sys/mman.h>

enum { HUGE = 2 << 20 };

int main(void)
{
    char size[64];
    char *map = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << MAP_HUGE_SHIFT, -1, 0);
    if (map == MAP_FAILED)
        LACKS("huge pages in its pool (vm.nr_hugepages)");
    for (int i = 0; i < HUGE; i += 4096)
        map[i] = (char)(i >> 12);
    for (int life = 0; life < 2; life++) {
        moment("huge");
        for (int i = 0; i < HUGE; i += 4096)
            CHECK(map[i] == (char)(i >> 12) && map[i + 1] == 0);
        CHECK(map[HUGE] == 0);
        told_of(map, "KernelPageSize:", size, sizeof size);
        CHECK(atoi(size) == 2048);
    }
    CHECK(munmap(map, 2 * HUGE) == 0);
    puts("huge");
    return 0;
}
