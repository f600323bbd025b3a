/* io_uring is refused by name, with what helps Node.
 *
 * expect: refuse "io_uring" "SF0301" "most have a setting"
 */
#include "check.h"
#include <linux/io_uring.h>
#include <sys/syscall.h>

int main(void)
{
    struct io_uring_params parameters = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0)
        LACKS("io_uring is switched off");
    moment("ring");
    CHECK(close(ring) == 0);
    puts("closed");
    return 0;
}
