/* A pidfd that stands for a process outside the program is refused by name.
 *
 * expect: refuse "pidfd" "not part of the program"
 */
#include "check.h"
#include <sys/syscall.h>

int main(void)
{
    int init = (int)syscall(SYS_pidfd_open, getppid(), 0);
    CHECK(init >= 0);
    moment("held");
    CHECK(close(init) == 0);
    puts("closed");
    return 0;
}
