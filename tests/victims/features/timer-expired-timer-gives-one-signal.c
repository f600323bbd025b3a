/* A timer that has expired while its signal is blocked gives that one signal and no second one; a periodic one rings on.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>
#include <time.h>

static timer_t make(int signal, int value, int64_t interval)
{
    struct sigevent event;
    timer_t timer;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = signal;
    event.sigev_value.sival_int = value;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec time = {{0, interval}, {0, 1000}};
    CHECK(timer_settime(timer, 0, &time, NULL) == 0);
    return timer;
}

int main(void)
{
    sigset_t set, now;
    siginfo_t info;
    struct timespec at_once = {0, 0};
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGRTMIN + 1) == 0 && sigaddset(&set, SIGRTMIN + 2) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    timer_t once = make(SIGRTMIN + 1, 11, 0), often = make(SIGRTMIN + 2, 22, 4000000);
    do
        CHECK(sigpending(&now) == 0);
    while (!sigismember(&now, SIGRTMIN + 1) || !sigismember(&now, SIGRTMIN + 2));
    moment("both expired");
    CHECK(sigpending(&now) == 0 && sigismember(&now, SIGRTMIN + 1) && sigismember(&now, SIGRTMIN + 2));
    moment("still expired");
    CHECK(sigtimedwait(&set, &info, &at_once) == SIGRTMIN + 1);
    CHECK(info.si_code == SI_TIMER && info.si_value.sival_int == 11);
    /* Only one of the periodic timer may wait, however long it has waited: the rest is its overrun. */
    CHECK(sigdelset(&set, SIGRTMIN + 1) == 0);
    CHECK(sigtimedwait(&set, &info, &at_once) == SIGRTMIN + 2 && info.si_value.sival_int == 22);
    for (int round = 0; round < 5; round++)
        CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 2 && info.si_value.sival_int == 22);
    moment("rings on");
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 2);
    struct itimerspec left;
    CHECK(timer_gettime(once, &left) == 0 && left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0);
    CHECK(sigpending(&now) == 0 && !sigismember(&now, SIGRTMIN + 1));
    CHECK(timer_delete(once) == 0 && timer_delete(often) == 0);
    puts("timers: one signal each");
    return 0;
}
