/* Timers of children ring in the child that has set them: an interval timer, a POSIX timer and a timer descriptor that its
 * parent shares.
 *
 * expect: survive
 */
#include "family.h"
#include <sys/time.h>
#include <sys/timerfd.h>

int main(void)
{
    struct line line;
    int rings = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(rings >= 0);
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        sigset_t set;
        timer_t timer;
        siginfo_t info;
        be_child(&line);
        CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGALRM) == 0 && sigaddset(&set, SIGRTMIN) == 0);
        CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        struct itimerval soon = {{0, 20000}, {0, 20000}};
        CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 9};
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
        struct itimerspec often = {{0, 30000000}, {0, 30000000}};
        CHECK(timer_settime(timer, 0, &often, NULL) == 0);
        for (int word; read(line.down[0], &word, sizeof word) == sizeof word;) {
            CHECK(sigwaitinfo(&set, &info) > 0);
            for (int seen = 0; seen != 3;) {
                CHECK(sigwaitinfo(&set, &info) > 0);
                seen |= info.si_signo == SIGALRM ? 1 : 2;
                CHECK(info.si_signo == SIGALRM || info.si_value.sival_int == 9);
            }
            put(line.up[1], word);
        }
        _exit(0);
    }
    be_parent(&line);
    struct itimerspec ring = {{0, 10000000}, {0, 10000000}};
    CHECK(timerfd_settime(rings, 0, &ring, NULL) == 0);
    for (int round = 0; round < 2; round++) {
        uint64_t number;
        moment("timers run");
        put(line.down[1], round);
        CHECK(get(line.up[0]) == round);
        CHECK(read(rings, &number, 8) == 8 && number > 0);
    }
    CHECK(close(line.down[1]) == 0);
    reap(child, 0);
    puts("all rang");
    return 0;
}
