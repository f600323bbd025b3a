/* A timerfd that runs keeps its interval and the time that is left, and does not fire while the program is dead.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/timerfd.h>
#include <time.h>

int main(void)
{
    struct itimerspec set = {.it_value = {1000, 500}, .it_interval = {7, 9}}, now;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    CHECK(timer >= 0 && timerfd_settime(timer, 0, &set, NULL) == 0);
    moment("running");
    CHECK(timerfd_gettime(timer, &now) == 0);
    CHECK(now.it_interval.tv_sec == 7 && now.it_interval.tv_nsec == 9);
    CHECK(now.it_value.tv_sec > 900 && now.it_value.tv_sec <= 1000);
    uint64_t ticks;
    CHECK(read(timer, &ticks, sizeof ticks) == -1 && errno == EAGAIN);
    set = (struct itimerspec){.it_value = {0, 1000000}};
    CHECK(timerfd_settime(timer, 0, &set, NULL) == 0 && timerfd_gettime(timer, &now) == 0);
    CHECK(now.it_interval.tv_sec == 0);
    CHECK(fcntl(timer, F_SETFL, 0) == 0 && read(timer, &ticks, sizeof ticks) == sizeof ticks && ticks == 1);
    puts("the timer kept its time");
    return 0;
}
