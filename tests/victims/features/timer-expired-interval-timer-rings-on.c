/* A periodic interval timer whose signal waits blocked gives one signal when it is unblocked, and rings on.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>
#include <sys/time.h>

int main(void)
{
    sigset_t set;
    struct itimerval fast = {{0, 3000}, {0, 1000}}, none;
    int got;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGALRM) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &fast, NULL) == 0);
    do
        CHECK(sigpending(&set) == 0);
    while (!sigismember(&set, SIGALRM));
    moment("expired");
    CHECK(sigpending(&set) == 0 && sigismember(&set, SIGALRM));
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGALRM) == 0);
    for (int round = 0; round < 5; round++)
        CHECK(sigwait(&set, &got) == 0 && got == SIGALRM);
    memset(&none, 0, sizeof none);
    CHECK(setitimer(ITIMER_REAL, &none, &fast) == 0 && fast.it_interval.tv_usec == 3000);
    puts("interval timer: rings on");
    return 0;
}
