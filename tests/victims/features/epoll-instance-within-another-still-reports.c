/* An epoll instance that watches another one reports what that one sees.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/epoll.h>

int main(void)
{
    int inner = epoll_create1(0), outer = epoll_create1(0), ends[2];
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 1};
    CHECK(inner >= 0 && outer >= 0 && pipe(ends) == 0);
    CHECK(epoll_ctl(inner, EPOLL_CTL_ADD, ends[0], &event) == 0);
    event.data.u32 = 2;
    CHECK(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event) == 0);
    moment("nested");
    CHECK(epoll_wait(outer, &event, 1, 0) == 0 && write(ends[1], "x", 1) == 1);
    CHECK(epoll_wait(outer, &event, 1, 0) == 1 && event.data.u32 == 2);
    CHECK(epoll_wait(inner, &event, 1, 0) == 1 && event.data.u32 == 1);
    puts("reported");
    return 0;
}
