/* Timers that are not armed stay so, also those that the kernel leaves an interval: timer descriptors, and interval
 * timers of processor time.
 *
 * expect: survive
 */
#include "check.h"
#include <poll.h>
#include <sys/time.h>
#include <sys/timerfd.h>

int main(void)
{
    struct itimerspec precise = {.it_interval = {0, 1000000}}, now;
    struct itimerval coarse = {.it_interval = {0, 1000}}, then;
    int descriptor = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    CHECK(descriptor >= 0 && timerfd_settime(descriptor, 0, &precise, NULL) == 0);
    CHECK(setitimer(ITIMER_VIRTUAL, &coarse, NULL) == 0 && setitimer(ITIMER_PROF, &coarse, NULL) == 0);
    for (int life = 0; life < 2; life++) {
        moment("unarmed");
        /* Each of them would expire in this time, and the last two would end the program. */
        clock_t end = clock() + CLOCKS_PER_SEC / 20;
        while (clock() < end)
            ;
        struct pollfd polled = {.fd = descriptor, .events = POLLIN};
        CHECK(poll(&polled, 1, 0) == 0);
        CHECK(timerfd_gettime(descriptor, &now) == 0 && now.it_value.tv_nsec == 0);
        CHECK(now.it_interval.tv_nsec == 1000000);
        CHECK(getitimer(ITIMER_VIRTUAL, &then) == 0 && then.it_value.tv_usec == 0 && then.it_interval.tv_usec == 1000);
        CHECK(getitimer(ITIMER_PROF, &then) == 0 && then.it_value.tv_usec == 0 && then.it_interval.tv_usec == 1000);
    }
    puts("nothing rang");
    return 0;
}
