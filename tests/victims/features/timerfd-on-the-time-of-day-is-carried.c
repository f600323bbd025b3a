/* A timerfd on the time of day that is to be cancelled when somebody sets the clock goes on waiting for its moment.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/timerfd.h>
#include <time.h>

int main(void)
{
    struct timespec now;
    struct itimerspec left;
    int timer = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    CHECK(timer >= 0 && clock_gettime(CLOCK_REALTIME, &now) == 0);
    struct itimerspec set = {.it_value = {now.tv_sec + 3000, 0}, .it_interval = {60, 0}};
    CHECK(timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &set, NULL) == 0);
    moment("waiting");
    uint64_t ticks;
    CHECK(read(timer, &ticks, sizeof ticks) == -1 && errno == EAGAIN);
    CHECK(timerfd_gettime(timer, &left) == 0 && left.it_interval.tv_sec == 60);
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    CHECK(labs(now.tv_sec + left.it_value.tv_sec - set.it_value.tv_sec) <= 2);
    puts("the appointment stands");
    return 0;
}
