/* An entry of an epoll instance that has fired once (EPOLLONESHOT), while its file is ready for nothing by now, is refused
 * until it is armed again.
 *
 * expect: refuse "EPOLLONESHOT"
 */
#include "check.h"
#include <sys/epoll.h>

int main(void)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = 1};
    int instance = epoll_create1(EPOLL_CLOEXEC), line[2];
    char byte;
    CHECK(instance >= 0 && pipe(line) == 0 && epoll_ctl(instance, EPOLL_CTL_ADD, line[0], &event) == 0);
    CHECK(write(line[1], "x", 1) == 1 && epoll_wait(instance, &event, 1, -1) == 1);
    CHECK(read(line[0], &byte, 1) == 1);
    moment("fired");
    CHECK(epoll_wait(instance, &event, 1, 0) == 0);
    puts("once");
    return 0;
}
