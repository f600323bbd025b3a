/* Thousands of small mappings of different protections are all there after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096, COUNT = 4000 };

int main(void)
{
    char *map = mmap(NULL, (size_t)COUNT * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    for (int i = 0; i < COUNT; i++) {
        *(int *)(map + i * PAGE) = i;
        if (i % 2)
            CHECK(mprotect(map + i * PAGE, PAGE, PROT_READ) == 0);
    }
    moment("scattered");
    for (int i = 0; i < COUNT; i++)
        CHECK(*(int *)(map + i * PAGE) == i);
    CHECK(mprotect(map, (size_t)COUNT * PAGE, PROT_READ | PROT_WRITE) == 0);
    puts("thousands");
    return 0;
}
