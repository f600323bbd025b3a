/* An epoll instance that watches the handle of a process is refused if several processes share the instance, or if only
 * another process still has the handle.
 *
 * expect: refuse "eventpoll" "process"
 */
#include "family.h"
#include <sys/epoll.h>

/* Starts a child that has all descriptors of its parent, and ends with the line. */
static pid_t start_child(struct line *line)
{
    open_line(line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(line);
        await_silence(line->down[0]);
        _exit(0);
    }
    be_parent(line);
    return child;
}

int main(void)
{
    struct line line;
    struct epoll_event event = {EPOLLIN, {.u64 = 77}};
    int own = syscall(SYS_pidfd_open, getpid(), 0), epoll = epoll_create1(0);
    CHECK(own >= 0 && epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, own, &event) == 0);
    pid_t child = start_child(&line);
    moment("shared");
    CHECK(close(line.down[1]) == 0);
    reap(child, 0);
    child = start_child(&line);
    CHECK(close(epoll) == 0 && (epoll = epoll_create1(0)) >= 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, own, &event) == 0 && close(own) == 0);
    moment("apart");
    CHECK(close(line.down[1]) == 0);
    reap(child, 0);
    puts("shared");
    return 0;
}
