/* A pidfd that stands for the program itself stands for it again.
 *
 * expect: survive
 */
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

static volatile sig_atomic_t heard;

static void hear(int signal)
{
    heard = signal;
}

int main(void)
{
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    CHECK(self >= 0 && signal(SIGUSR1, hear) != SIG_ERR);
    moment("held");
    CHECK(syscall(SYS_pidfd_send_signal, self, SIGUSR1, NULL, 0) == 0 && heard == SIGUSR1);
    struct pollfd alive = {.fd = self, .events = POLLIN};
    CHECK(poll(&alive, 1, 0) == 0);
    puts("it is still itself");
    return 0;
}
