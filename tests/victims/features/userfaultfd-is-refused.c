/* A program that handles page faults of its own with userfaultfd is refused by name.
 *
 * expect: refuse "userfaultfd"
 */
#include "check.h"
#include <sys/syscall.h>

int main(void)
{
    /* UFFD_USER_MODE_ONLY, which needs no privilege. */
    int faults = (int)syscall(SYS_userfaultfd, 1);
    if (faults < 0)
        LACKS("userfaultfd");
    moment("held");
    CHECK(close(faults) == 0);
    puts("let go");
    return 0;
}
