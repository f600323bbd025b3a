/* A slave that is opened by way of its master to be closed on exec has descriptors that are not: the kernel shows the flag
 * for all of them. Its other flags stay the same.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

enum { COPY = 40 };

int main(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && unlockpt(master) == 0);
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        LACKS("slaves that are opened by way of their masters (Linux 4.13)");
    CHECK(dup2(slave, COPY) == COPY);
    int flags = fcntl(slave, F_GETFL) & ~O_CLOEXEC;
    moment("open");
    CHECK((fcntl(slave, F_GETFL) & ~O_CLOEXEC) == flags);
    CHECK(fcntl(COPY, F_GETFD) == 0 && fcntl(slave, F_GETFD) == FD_CLOEXEC && fcntl(master, F_GETFD) == FD_CLOEXEC);
    puts("one survives");
    return 0;
}
