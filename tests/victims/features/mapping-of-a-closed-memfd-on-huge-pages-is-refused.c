/* A mapping of a memfd on huge pages from the system's pool is refused by name when the memfd is closed.
 *
 * expect: refuse "huge pages"
 */
#include "check.h"
#include <sys/mman.h>

enum { HUGE = 2 << 20, SIZE_SHIFT = 26 };

int main(void)
{
    int file = memfd_create("huge", MFD_HUGETLB | 21 << SIZE_SHIFT);
    if (file < 0)
        LACKS("huge pages of 2 MiB");
    CHECK(ftruncate(file, HUGE) == 0);
    char *map = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        LACKS("huge pages in its pool (vm.nr_hugepages)");
    CHECK(close(file) == 0);
    map[HUGE - 1] = 'x';
    moment("mapped");
    CHECK(map[HUGE - 1] == 'x');
    puts("huge");
    return 0;
}
