/* A context of the kernel's asynchronous I/O is refused by name, since the kernel may be writing into the program's memory.
 *
 * expect: refuse "asynchronous I/O"
 */
#include "check.h"
#include <linux/aio_abi.h>
#include <sys/syscall.h>

int main(void)
{
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 8, &context) != 0)
        LACKS("asynchronous I/O of the kernel");
    moment("context");
    CHECK(syscall(SYS_io_destroy, context) == 0);
    puts("destroyed");
    return 0;
}
