/* Steps on epoll instances and on watches of files. */
#include "interpreter.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/inotify.h>

enum {
    EVENTS_MAX = 16,
    /* Added to the data of entries that are edge-triggered. They may report an event twice (docs/files.md). */
    EDGE_TRIGGERED = 1000,
};

/* epoll SLOT FLAGS */
static long do_epoll(const long *a)
{
    return place(epoll_create1((int)a[1]), a[0]);
}

/* epoll-control SLOT OPERATION TARGET EVENTS DATA */
static long do_epoll_control(const long *a)
{
    struct epoll_event event = {.events = (uint32_t)a[3], .data.u64 = (uint64_t)a[4]};
    if (event.events & EPOLLET)
        event.data.u64 += EDGE_TRIGGERED;
    return epoll_ctl(fd_of(a[0]), (int)a[1], fd_of(a[2]), &event);
}

static int by_data(const void *one, const void *other)
{
    uint64_t a = ((const struct epoll_event *)one)->data.u64, b = ((const struct epoll_event *)other)->data.u64;
    return a < b ? -1 : a > b;
}

/* epoll-wait SLOT. The order of what is ready differs by design: a restart adds the entries in order of numbers. */
static long do_epoll_wait(const long *a)
{
    struct epoll_event events[EVENTS_MAX * 2];
    int ready = epoll_wait(fd_of(a[0]), events, EVENTS_MAX * 2, 0);
    if (ready > 0)
        qsort(events, (size_t)ready, sizeof *events, by_data);
    for (int each = 0; each < ready; each++)
        if (events[each].data.u64 < EDGE_TRIGGERED)
            say(" [%lu: %x]", (unsigned long)events[each].data.u64, events[each].events);
    return ready < 0 ? ready : 0;
}

/* poll SLOT */
static long do_poll(const long *a)
{
    struct pollfd polled = {.fd = fd_of(a[0]), .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP};
    if (strcmp(kind_of(polled.fd), "anon_inode:[eventpoll]") == 0)
        return 0;
    int ready = poll(&polled, 1, 0);
    say(" %x", polled.revents);
    return ready;
}

/* file-watch SLOT FLAGS */
static long do_file_watch(const long *a)
{
    return place(inotify_init1((int)a[1]), a[0]);
}

/* watch SLOT PATH MASK */
static long do_watch(const long *a)
{
    return inotify_add_watch(fd_of(a[0]), path_of(a[1]), (uint32_t)a[2]);
}

static long do_unwatch(const long *a)
{
    return inotify_rm_watch(fd_of(a[0]), (int)a[1]);
}

/* read-events SLOT. Cookies are counted by the kernel, for all programs together. */
static long do_read_events(const long *a)
{
    char bytes[4096] __attribute__((aligned(8)));
    int fd = fd_of(a[0]);
    errno = EINVAL;
    if (strcmp(kind_of(fd), "anon_inode:inotify") != 0)
        return -1;
    int flags = never_wait(fd);
    ssize_t got = read(fd, bytes, sizeof bytes);
    wait_again(fd, flags);
    for (ssize_t at = 0; at < got;) {
        struct inotify_event *event = (void *)(bytes + at);
        say(" [%d: %x %s]", event->wd, event->mask, event->len > 0 ? event->name : "");
        at += (ssize_t)sizeof *event + event->len;
    }
    return got < 0 ? got : 0;
}

const struct operation event_operations[] = {
    {"epoll", do_epoll},
    {"epoll-control", do_epoll_control},
    {"epoll-wait", do_epoll_wait},
    {"poll", do_poll},
    {"file-watch", do_file_watch},
    {"watch", do_watch},
    {"unwatch", do_unwatch},
    {"read-events", do_read_events},
    {0},
};
