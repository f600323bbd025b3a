/* A timer that has expired while its signal is blocked gives that one signal and no second one; a periodic one rings on.
 * One that was set again meanwhile keeps its new time, and what becomes of its signal.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>
#include <stdbool.h>
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

/* Makes a timer that has expired, its signal being blocked, and sets it again. */
static timer_t make_again(int signal, time_t seconds, time_t interval)
{
    timer_t timer = make(signal, 33, 0);
    sigset_t now;
    do
        CHECK(sigpending(&now) == 0);
    while (!sigismember(&now, signal));
    struct itimerspec time = {{interval, 0}, {seconds, 0}};
    CHECK(timer_settime(timer, 0, &time, NULL) == 0);
    return timer;
}

/* Takes the signal of a timer that has been set again. Returns whether there is one: since Linux 6.13 there is not. */
static bool take_late(int signal)
{
    sigset_t set;
    struct timespec at_once = {0, 0};
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, signal) == 0);
    return sigtimedwait(&set, NULL, &at_once) == signal;
}

static void check_time(timer_t timer, time_t seconds, time_t interval)
{
    struct itimerspec left;
    CHECK(timer_gettime(timer, &left) == 0);
    CHECK(left.it_interval.tv_sec == interval && left.it_interval.tv_nsec == 0);
    CHECK(left.it_value.tv_sec < seconds && left.it_value.tv_sec > seconds / 2);
}

int main(void)
{
    enum { AGAIN = 5, LATE = 9000, EVERY = 1000 };
    sigset_t set, now;
    siginfo_t info;
    struct timespec at_once = {0, 0};
    int again = SIGRTMIN + AGAIN;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, again) == 0 && sigaddset(&set, again + 1) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    timer_t gone = make_again(again, LATE, EVERY);
    bool comes_late = take_late(again);
    timer_t late = make_again(again, LATE, EVERY), late_once = make_again(again + 1, LATE, 0);
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
    check_time(late, LATE, EVERY);
    check_time(late_once, LATE, 0);
    CHECK(take_late(again) == comes_late && take_late(again + 1) == comes_late);
    CHECK(timer_delete(gone) == 0 && timer_delete(late) == 0 && timer_delete(late_once) == 0);
    moment("rings on");
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 2);
    struct itimerspec left;
    CHECK(timer_gettime(once, &left) == 0 && left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0);
    CHECK(sigpending(&now) == 0 && !sigismember(&now, SIGRTMIN + 1));
    CHECK(timer_delete(once) == 0 && timer_delete(often) == 0);
    puts("timers: one signal each");
    return 0;
}
