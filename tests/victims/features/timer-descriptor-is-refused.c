/* A program with a timer descriptor is refused by name.
 *
 * expect: refuse "timerfd"
 */
#include "check.h"
#include <sys/timerfd.h>

int main(void)
{
    struct itimerspec soon = {.it_value = {.tv_sec = 1000}};
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(timer >= 0 && timerfd_settime(timer, 0, &soon, NULL) == 0);
    moment("ticking");
    CHECK(timerfd_gettime(timer, &soon) == 0 && soon.it_value.tv_sec > 100 && close(timer) == 0);
    puts("ticked");
    return 0;
}
