/* One epoll instance watches timers, signals, counters, pipes, inotify and another epoll instance; each entry reports
 * with its own word after the restart.
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
#include <sys/stat.h>
#include <sys/timerfd.h>

static int outer;

static void add(int instance, int fd, uint32_t events, uint64_t word)
{
    struct epoll_event event = {.events = events, .data.u64 = word};
    CHECK(fd >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* The words of all entries that are ready, as a set of bits. */
static unsigned ready(void)
{
    struct epoll_event got[16];
    unsigned set = 0;
    int count = epoll_wait(outer, got, 16, 0);
    CHECK(count >= 0);
    for (int i = 0; i < count; i++)
        set |= 1u << (got[i].data.u64 & 31);
    return set;
}

int main(void)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &mask, NULL) == 0);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0), signals = signalfd(-1, &mask, 0), counter = eventfd(0, 0);
    int inner = epoll_create1(0), deep = eventfd(0, 0), watch = inotify_init1(IN_NONBLOCK), ends[2];
    outer = epoll_create1(0);
    CHECK(pipe(ends) == 0 && mkdir("watched", 0755) == 0 && inotify_add_watch(watch, "watched", IN_CREATE) > 0);
    add(inner, deep, EPOLLIN, 99);
    add(outer, inner, EPOLLIN, 1);
    add(outer, timer, EPOLLIN, 2);
    add(outer, signals, EPOLLIN, 3);
    add(outer, counter, EPOLLIN | EPOLLET, 4);
    add(outer, watch, EPOLLIN, 5);
    add(outer, ends[0], EPOLLIN, 6);
    add(outer, ends[1], EPOLLIN, 7);
    CHECK(ready() == 0);
    moment("quiet");
    uint64_t word;
    CHECK(ready() == 0);
    struct itimerspec soon = {.it_value = {0, 1}};
    CHECK(eventfd_write(deep, 1) == 0 && ready() == 1 << 1 && read(deep, &word, 8) == 8);
    CHECK(timerfd_settime(timer, 0, &soon, NULL) == 0);
    while (ready() != 1 << 2) { }
    CHECK(read(timer, &word, 8) == 8 && raise(SIGUSR2) == 0 && ready() == 1 << 3);
    struct signalfd_siginfo signal;
    CHECK(read(signals, &signal, sizeof signal) == sizeof signal);
    CHECK(eventfd_write(counter, 1) == 0 && ready() == 1 << 4 && ready() == 0);
    CHECK(write(ends[1], "x", 1) == 1 && ready() == 1 << 6);
    int file = open("watched/new", O_CREAT | O_WRONLY, 0600);
    CHECK(file >= 0 && close(file) == 0 && ready() == (1 << 5 | 1 << 6));
    CHECK(unlink("watched/new") == 0);
    puts("everybody was heard");
    return 0;
}
