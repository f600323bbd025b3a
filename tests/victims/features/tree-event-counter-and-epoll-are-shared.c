/* An event counter and an epoll instance that parent and child share wake whoever waits, with what the other has done.
 *
 * expect: survive
 */
#include "family.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>

int main(void)
{
    struct line line;
    struct epoll_event event = {EPOLLIN, {.u64 = 5}}, got;
    uint64_t number;
    int counter = eventfd(0, 0), pipes[2], epoll = epoll_create1(0);
    CHECK(counter >= 0 && epoll >= 0 && pipe(pipes) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event) == 0);
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        for (int round = 0; round < 3; round++) {
            CHECK(read(counter, &number, 8) == 8 && number == 7);
            CHECK(epoll_wait(epoll, &got, 1, -1) == 1 && got.data.u64 == 5);
            CHECK(get(pipes[0]) == round);
            put(line.up[1], round);
        }
        _exit(0);
    }
    be_parent(&line);
    for (int round = 0; round < 3; round++) {
        await_call_of(child, SYS_read);
        moment("waits for the counter");
        number = 7;
        CHECK(write(counter, &number, 8) == 8);
        await_call_of(child, SYS_epoll_wait);
        moment("waits for the pipe");
        put(pipes[1], round);
        CHECK(get(line.up[0]) == round);
    }
    reap(child, 0);
    puts("all woken");
    return 0;
}
