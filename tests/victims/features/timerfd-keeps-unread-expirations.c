/* Expirations of a timerfd that have not been read are still there after a restart, and a timer that has not been set stays
 * silent.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <time.h>

int main(void)
{
    struct itimerspec soon = {.it_value = {0, 1}}, often = {.it_value = {0, 1}, .it_interval = {0, 1000}}, never = {0};
    int once = timerfd_create(CLOCK_BOOTTIME, 0), many = timerfd_create(CLOCK_MONOTONIC, 0);
    int silent = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    CHECK(once >= 0 && many >= 0 && silent >= 0);
    CHECK(timerfd_settime(once, 0, &soon, NULL) == 0 && timerfd_settime(many, 0, &often, NULL) == 0);
    struct pollfd both[2] = {{.fd = once, .events = POLLIN}, {.fd = many, .events = POLLIN}};
    while (poll(both, 2, -1) != 2) { }
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    moment("expired");
    uint64_t ticks;
    CHECK(read(once, &ticks, sizeof ticks) == sizeof ticks && ticks == 1);
    CHECK(read(many, &ticks, sizeof ticks) == sizeof ticks && ticks >= 2000);
    CHECK(read(silent, &ticks, sizeof ticks) == -1 && errno == EAGAIN);
    CHECK(timerfd_settime(many, 0, &never, NULL) == 0);
    moment("stopped");
    CHECK(fcntl(many, F_SETFL, O_NONBLOCK) == 0);
    CHECK(read(many, &ticks, sizeof ticks) == -1 && errno == EAGAIN);
    puts("nothing that had expired was lost");
    return 0;
}
