/* O_APPEND is kept on descriptors to which it means nothing.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

enum { FILES = 9 };

int main(void)
{
    sigset_t none;
    int ends[2];
    CHECK(sigemptyset(&none) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    int files[FILES] = {
        timerfd_create(CLOCK_MONOTONIC, 0),
        eventfd(0, EFD_NONBLOCK),
        signalfd(-1, &none, 0),
        syscall(SYS_pidfd_open, getpid(), 0),
        posix_openpt(O_RDWR | O_NOCTTY),
        epoll_create1(0),
        inotify_init1(IN_NONBLOCK),
        ends[0],
        ends[1],
    };
    CHECK(grantpt(files[4]) == 0 && unlockpt(files[4]) == 0);
    int slave = open(ptsname(files[4]), O_RDWR | O_NOCTTY);
    CHECK(slave >= 0);
    for (int at = 0; at < FILES; at++) {
        int flags = fcntl(files[at], F_GETFL);
        CHECK(files[at] >= 0 && fcntl(files[at], F_SETFL, flags | O_APPEND) == 0);
        CHECK(fcntl(files[at], F_GETFL) == (flags | O_APPEND));
    }
    for (int round = 0; round < 2; round++) {
        int before[FILES];
        for (int at = 0; at < FILES; at++)
            before[at] = fcntl(files[at], F_GETFL);
        moment("set");
        for (int at = 0; at < FILES; at++)
            CHECK(before[at] & O_APPEND && fcntl(files[at], F_GETFL) == before[at]);
    }
    puts("kept");
    return 0;
}
