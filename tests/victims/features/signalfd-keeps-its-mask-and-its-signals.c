/* A signalfd keeps listening to its signals, and those that are waiting come out of it with their values.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>
#include <sys/signalfd.h>

int main(void)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigaddset(&mask, SIGRTMIN + 3);
    CHECK(sigprocmask(SIG_BLOCK, &mask, NULL) == 0);
    int fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    CHECK(fd >= 0);
    for (int i = 0; i < 3; i++)
        CHECK(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 40 + i}) == 0);
    CHECK(raise(SIGUSR1) == 0);
    moment("waiting");
    struct signalfd_siginfo got;
    CHECK(read(fd, &got, sizeof got) == sizeof got && got.ssi_signo == SIGUSR1);
    for (int i = 0; i < 3; i++) {
        CHECK(read(fd, &got, sizeof got) == sizeof got);
        CHECK(got.ssi_signo == (uint32_t)SIGRTMIN + 3 && got.ssi_int == 40 + i);
    }
    CHECK(read(fd, &got, sizeof got) == -1 && errno == EAGAIN);
    sigdelset(&mask, SIGUSR1);
    CHECK(signalfd(fd, &mask, 0) == fd);
    moment("changed");
    sigset_t both;
    CHECK(raise(SIGUSR1) == 0 && read(fd, &got, sizeof got) == -1 && errno == EAGAIN);
    CHECK(sigpending(&both) == 0 && sigismember(&both, SIGUSR1) == 1);
    puts("all signals came out");
    return 0;
}
