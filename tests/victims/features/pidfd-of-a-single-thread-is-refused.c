/* A pidfd that stands for a single thread is refused by name.
 *
 * expect: refuse "single thread"
 */
#include "check.h"
#include <fcntl.h>
#include <sys/syscall.h>

int main(void)
{
    /* PIDFD_THREAD is O_EXCL. */
    int thread = (int)syscall(SYS_pidfd_open, gettid(), O_EXCL);
    if (thread < 0)
        LACKS("pidfds of threads");
    moment("held");
    CHECK(close(thread) == 0);
    puts("let go");
    return 0;
}
