/* A timerfd that was set to a moment of a monotonic clock fires at that moment, not before, also when it lies in the past by
 * the time of the restart.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/timerfd.h>
#include <time.h>

int main(void)
{
    struct timespec now;
    struct itimerspec set = {0}, left;
    uint64_t ticks;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    int far = timerfd_create(CLOCK_MONOTONIC, 0), near = timerfd_create(CLOCK_MONOTONIC, 0);
    set.it_value = (struct timespec){now.tv_sec + 5000, now.tv_nsec};
    CHECK(timerfd_settime(far, TFD_TIMER_ABSTIME, &set, NULL) == 0);
    moment("waiting");
    CHECK(timerfd_gettime(far, &left) == 0);
    struct timespec then;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &then) == 0);
    double deadline = (double)then.tv_sec + (double)then.tv_nsec / 1e9 + (double)left.it_value.tv_sec + (double)left.it_value.tv_nsec / 1e9;
    double wanted = (double)now.tv_sec + 5000 + (double)now.tv_nsec / 1e9;
    CHECK(deadline > wanted - 0.000001 && deadline < wanted + 0.5);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    set.it_value = (struct timespec){now.tv_sec, now.tv_nsec};
    set.it_value.tv_nsec += 200000000;
    if (set.it_value.tv_nsec >= 1000000000) {
        set.it_value.tv_nsec -= 1000000000;
        set.it_value.tv_sec++;
    }
    CHECK(timerfd_settime(near, TFD_TIMER_ABSTIME, &set, NULL) == 0);
    moment("soon");
    CHECK(read(near, &ticks, sizeof ticks) == sizeof ticks && ticks == 1);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &then) == 0);
    CHECK(then.tv_sec > set.it_value.tv_sec || (then.tv_sec == set.it_value.tv_sec && then.tv_nsec >= set.it_value.tv_nsec));
    puts("the deadline was kept");
    return 0;
}
