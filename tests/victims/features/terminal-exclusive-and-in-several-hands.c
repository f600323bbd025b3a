/* Several open files of one slave stay apart, what a fork shares stays shared, an epoll instance watches on; and a slave
 * that may not be opened again still may not, nor a master.
 *
 * expect: survive
 */
#include "terminal.h"
#include <sys/epoll.h>

int main(void)
{
    int master, slave;
    open_terminal(&master, &slave, 0);
    int peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_NONBLOCK), copy = dup(peer), watch = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 42};
    CHECK(peer >= 0 && copy >= 0 && watch >= 0);
    CHECK(epoll_ctl(watch, EPOLL_CTL_ADD, peer, &event) == 0 && ioctl(slave, TIOCEXCL) == 0);
    CHECK(ioctl(master, TIOCEXCL) == 0);
    for (int round = 0; round < 2; round++) {
        moment("watched");
        CHECK(!(fcntl(slave, F_GETFL) & O_NONBLOCK) && fcntl(peer, F_GETFL) & O_NONBLOCK);
        CHECK(fcntl(peer, F_SETFL, round ? O_NONBLOCK : O_NONBLOCK | O_APPEND) == 0);
        CHECK(fcntl(copy, F_GETFL) == fcntl(peer, F_GETFL) && !(fcntl(slave, F_GETFL) & O_APPEND));
        int exclusive = 0;
        CHECK(ioctl(slave, TIOCGEXCL, &exclusive) == 0 && exclusive == 1);
        CHECK(ioctl(master, TIOCGEXCL, &exclusive) == 0 && exclusive == 1);
        CHECK(epoll_wait(watch, &event, 1, 0) == 0);
        say(master, "key");
        CHECK(epoll_wait(watch, &event, 1, -1) == 1 && event.data.u64 == 42);
        hear_soon(copy, "key");
    }
    puts("apart");
    return 0;
}
