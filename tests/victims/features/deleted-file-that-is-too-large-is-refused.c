/* A deleted file with more than 1 GiB in it is refused by name; one that is only as long, being a hole, is carried. Here it
 * has more than that allotted, which costs no writing.
 *
 * expect: refuse "large" "GiB"
 */
#include "check.h"
#include <fcntl.h>
#include <sys/statvfs.h>

#define BYTES ((off_t)1100 << 20)

int main(void)
{
    struct statvfs disk;
    CHECK(statvfs(".", &disk) == 0);
    if ((uint64_t)disk.f_bavail * disk.f_frsize < 2 * (uint64_t)BYTES)
        LACKS("room on the disk");
    int file = open("large", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(file >= 0 && unlink("large") == 0);
    if (fallocate(file, 0, 0, BYTES) != 0)
        LACKS("room that is allotted without being written (fallocate)");
    moment("allotted");
    CHECK(close(file) == 0);
    puts("closed");
    return 0;
}
