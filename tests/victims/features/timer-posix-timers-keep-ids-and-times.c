/* Timers made with timer_create keep their ids, values, intervals and the time that was left, also those with gaps between.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

enum { TIMERS = 6, SECOND = 1000000000 };
/* The kernel's own ids: a C library may give out others. */
static int ids[TIMERS];
static const clockid_t clocks[TIMERS] = {CLOCK_MONOTONIC, CLOCK_REALTIME,           CLOCK_BOOTTIME,
                                         CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_TAI};

static int64_t left(int timer, int64_t *interval)
{
    struct itimerspec time;
    CHECK(syscall(SYS_timer_gettime, ids[timer], &time) == 0);
    *interval = time.it_interval.tv_sec * (int64_t)SECOND + time.it_interval.tv_nsec;
    return time.it_value.tv_sec * (int64_t)SECOND + time.it_value.tv_nsec;
}

static int make(clockid_t clock, int value)
{
    struct sigevent event;
    int id;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN + 1;
    event.sigev_value.sival_int = value;
    CHECK(syscall(SYS_timer_create, clock, &event, &id) == 0);
    return id;
}

int main(void)
{
    int64_t before[TIMERS], interval;
    for (int i = 0; i < TIMERS; i++) {
        ids[i] = make(clocks[i], 100 + i);
        for (int gap = 0; gap < i * 3; gap++)
            CHECK(syscall(SYS_timer_delete, make(CLOCK_MONOTONIC, 0)) == 0);
    }
    for (int i = 0; i < TIMERS; i++) {
        /* The last but two is never set. */
        struct itimerspec time = {{i, 5}, {i == 3 ? 0 : 5000 + i, 0}};
        CHECK(syscall(SYS_timer_settime, ids[i], 0, &time, NULL) == 0);
        before[i] = left(i, &interval);
    }
    moment("timers run");
    for (int i = 0; i < TIMERS; i++) {
        int64_t after = left(i, &interval);
        CHECK(after <= before[i] && (i == 3 ? after == 0 : after > 4000 * (int64_t)SECOND));
        CHECK(i == 3 || interval == i * (int64_t)SECOND + 5);
    }
    sigset_t set;
    siginfo_t info;
    struct timespec at_once = {0, 0};
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGRTMIN + 1) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    for (int i = 0; i < TIMERS; i++) {
        struct itimerspec soon = {{0, 0}, {0, 1000}};
        CHECK(syscall(SYS_timer_settime, ids[i], 0, &soon, NULL) == 0);
        /* Never asleep: one of them measures processor time. */
        while (sigtimedwait(&set, &info, &at_once) < 0)
            CHECK(errno == EAGAIN);
        CHECK(info.si_code == SI_TIMER && info.si_value.sival_int == 100 + i);
    }
    int next = make(CLOCK_MONOTONIC, 0);
    for (int i = 0; i < TIMERS; i++)
        CHECK(next != ids[i]);
    puts("timers: ids, values and times kept");
    return 0;
}
