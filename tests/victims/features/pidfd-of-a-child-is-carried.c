/* Handles of children, one that runs and one that has ended, are theirs after a restart: to wait, to signal, to poll, in
 * an epoll instance, and in a child that inherited them, which shares their flags.
 *
 * expect: survive
 */
#include "family.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

#define P_PIDFD_ 3

static int handle_of(pid_t pid)
{
    int handle = syscall(SYS_pidfd_open, pid, 0);
    CHECK(handle >= 0);
    return handle;
}

static int is_ready(int handle)
{
    struct pollfd entry = {handle, POLLIN, 0};
    int ready = poll(&entry, 1, 0);
    CHECK(ready >= 0);
    return ready;
}

int main(void)
{
    struct line line;
    struct epoll_event event = {EPOLLIN, {.u64 = 77}}, events[4];
    siginfo_t info;
    pid_t ended = fork(), runs;
    CHECK(ended >= 0);
    if (ended == 0)
        _exit(6);
    await_state(ended, 'Z');
    CHECK((runs = fork()) >= 0);
    if (runs == 0)
        for (;;)
            pause();
    int of_ended = handle_of(ended), of_running = handle_of(runs);
    open_line(&line);
    pid_t watcher = fork();
    CHECK(watcher >= 0);
    if (watcher == 0) {
        be_child(&line);
        struct pollfd entry = {of_running, POLLIN, 0};
        CHECK(poll(&entry, 1, -1) == 1);
        put(line.up[1], fcntl(of_running, F_GETFL) & O_NONBLOCK ? 2 : 1);
        await_silence(line.down[0]);
        _exit(0);
    }
    be_parent(&line);
    int epoll = epoll_create1(0);
    CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, of_running, &event) == 0);
    await_call_of(watcher, SYS_poll);
    moment("one runs");
    CHECK(is_ready(of_ended) && !is_ready(of_running) && epoll_wait(epoll, events, 4, 0) == 0);
    CHECK(waitid(P_PIDFD_, of_ended, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == ended && info.si_status == 6);
    CHECK(waitid(P_PIDFD_, of_running, &info, WEXITED | WNOHANG) == 0);
    CHECK(fcntl(of_running, F_SETFL, O_NONBLOCK) == 0);
    CHECK(syscall(SYS_pidfd_send_signal, of_running, SIGKILL, NULL, 0) == 0);
    CHECK(get(line.up[0]) == 2);
    moment("both ended");
    CHECK(epoll_wait(epoll, events, 4, 0) == 1 && events[0].data.u64 == 77);
    CHECK(waitid(P_PIDFD_, of_running, &info, WEXITED) == 0 && info.si_pid == runs && info.si_status == SIGKILL);
    CHECK(waitid(P_PIDFD_, of_ended, &info, WEXITED) == 0 && info.si_status == 6);
    CHECK(close(of_running) == 0 && close(of_ended) == 0 && close(line.down[1]) == 0);
    reap(watcher, 0);
    puts("handles held");
    return 0;
}
