/* Interval timers of all three kinds keep their interval and the time that was left, and ring on.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t rung[65];

static void ring(int signal)
{
    rung[signal]++;
}

static const int kinds[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
static const int signals[] = {SIGALRM, SIGVTALRM, SIGPROF};

int main(void)
{
    struct itimerval far[3], now;
    for (int i = 0; i < 3; i++) {
        CHECK(signal(signals[i], ring) != SIG_ERR);
        far[i].it_interval = (struct timeval){7 + i, 250000};
        far[i].it_value = (struct timeval){2000 + i, 0};
        CHECK(setitimer(kinds[i], &far[i], NULL) == 0);
        CHECK(getitimer(kinds[i], &far[i]) == 0);
    }
    moment("all run");
    for (int i = 0; i < 3; i++) {
        CHECK(getitimer(kinds[i], &now) == 0);
        CHECK(now.it_interval.tv_sec == 7 + i && now.it_interval.tv_usec == 250000);
        CHECK(timercmp(&now.it_value, &far[i].it_value, <=) && now.it_value.tv_sec > 1000);
        struct itimerval soon = {{0, 2000}, {0, 1000}};
        CHECK(setitimer(kinds[i], &soon, NULL) == 0);
    }
    moment("all ring");
    for (int i = 0; i < 3; i++)
        rung[signals[i]] = 0;
    while (rung[SIGALRM] < 3 || rung[SIGVTALRM] < 3 || rung[SIGPROF] < 3)
        ;
    puts("interval timers: all ring on");
    return 0;
}
