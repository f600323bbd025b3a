/* An epoll instance with two descriptors watches a process (pidfd), and reports its end once.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

int main(void)
{
    int ends[2];
    char letter;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &letter, 1) == 0 ? 3 : 4);
    }
    int process = (int)syscall(SYS_pidfd_open, child, 0), instance = epoll_create1(0), other = dup(instance);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7}, got[2];
    CHECK(process >= 0 && other >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, process, &event) == 0);
    for (int life = 0; life < 2; life++) {
        moment("watched");
        CHECK(epoll_wait(instance, got, 2, 0) == 0);
    }
    CHECK(close(ends[1]) == 0);
    CHECK(epoll_wait(other, got, 2, 20000) == 1 && got[0].data.u64 == 7);
    CHECK(waitpid(child, NULL, 0) == child && epoll_ctl(other, EPOLL_CTL_DEL, process, NULL) == 0);
    puts("one end was reported");
    return 0;
}
