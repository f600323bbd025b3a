/* A memfd on huge pages from the system's pool is refused by name, even if nothing of it is mapped.
 *
 * expect: refuse "huge pages"
 */
#include "check.h"
#include <sys/mman.h>

enum { HUGE = 2 << 20, SIZE_SHIFT = 26 };

int main(void)
{
    struct stat now;
    int file = memfd_create("huge", MFD_HUGETLB | 21 << SIZE_SHIFT);
    if (file < 0)
        LACKS("huge pages of 2 MiB");
    CHECK(ftruncate(file, 2 * HUGE) == 0);
    moment("made");
    CHECK(fstat(file, &now) == 0 && now.st_size == 2 * HUGE && now.st_blksize == HUGE);
    puts("huge");
    return 0;
}
