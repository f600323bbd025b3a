/* A ring of io_uring that has no descriptor any more shows by the memory that it has pinned: refused by name.
 *
 * expect: refuse "pinned" "io_uring"
 */
#include "check.h"
#include <linux/io_uring.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define PAGES 4

int main(void)
{
    struct io_uring_params parameters = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0)
        LACKS("io_uring is switched off");
    void *memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    struct iovec buffer = {.iov_base = memory, .iov_len = PAGES * 4096};
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1) != 0)
        LACKS("no memory may be pinned");
    /* IORING_REGISTER_RING_FDS, and any place in the table of the thread. */
    struct { unsigned offset, reserved; unsigned long long data; } place = {.offset = -1U, .data = (unsigned long long)ring};
    if (syscall(SYS_io_uring_register, ring, 20, &place, 1) != 1)
        LACKS("rings cannot be registered");
    CHECK(close(ring) == 0);
    moment("pinned");
    puts("done");
    return 0;
}
