/* An EPOLLONESHOT entry that has fired stays silent after a restart, also at a hang-up, until the program arms it again.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>

int main(void)
{
    int ends[2], instance = epoll_create1(0), counter = eventfd(0, EFD_NONBLOCK);
    CHECK(pipe(ends) == 0 && counter >= 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = 7}, got[4];
    CHECK(write(ends[1], "x", 1) == 1 && epoll_ctl(instance, EPOLL_CTL_ADD, ends[0], &event) == 0);
    CHECK(epoll_wait(instance, got, 4, 0) == 1);
    struct epoll_event other = {.events = EPOLLIN, .data.u32 = 9};
    CHECK(epoll_ctl(instance, EPOLL_CTL_ADD, counter, &other) == 0);
    moment("disarmed");
    CHECK(epoll_wait(instance, got, 4, 0) == 0);
    CHECK(close(ends[1]) == 0 && epoll_wait(instance, got, 4, 0) == 0);
    CHECK(epoll_ctl(instance, EPOLL_CTL_MOD, ends[0], &event) == 0);
    CHECK(epoll_wait(instance, got, 4, 0) == 1 && got[0].data.u32 == 7);
    CHECK(epoll_wait(instance, got, 4, 0) == 0);
    CHECK(eventfd_write(counter, 1) == 0 && epoll_wait(instance, got, 4, 0) == 1 && got[0].data.u32 == 9);
    puts("it spoke once and no more");
    return 0;
}
