/* Shared memory on huge pages from the system's pool is refused by name.
 *
 * expect: refuse "huge pages"
 */
#include "check.h"
#include <sys/mman.h>

#define BYTES (2 << 20)

int main(void)
{
    int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB;
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        LACKS("huge pages in the system's pool (vm.nr_hugepages)");
    memory[0] = 'x';
    moment("mapped");
    CHECK(memory[0] == 'x');
    puts("mapped");
    return 0;
}
