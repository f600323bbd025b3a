/* Pages that were only read, pages of written zeros and pages never touched are all zeros after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 300 };

int main(void)
{
    char *map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    for (int i = 0; i < PAGES; i++) {
        if (i % 4 == 0)
            CHECK(((volatile char *)map)[i * PAGE] == 0);
        else if (i % 4 == 1)
            memset(map + i * PAGE, 0, PAGE);
        else if (i % 4 == 2)
            map[i * PAGE + PAGE - 1] = 7;
    }
    moment("mixed");
    for (int i = 0; i < PAGES; i++)
        for (int at = 0; at < PAGE; at++)
            CHECK(map[i * PAGE + at] == (i % 4 == 2 && at == PAGE - 1 ? 7 : 0));
    puts("zeros");
    return 0;
}
