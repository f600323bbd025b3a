/* Steps on pipes, event counters, timers and signals behind descriptors, and descriptors of processes. */
#include "interpreter.h"
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

/* Times are in units of this many seconds, plus half a unit: no test takes that long. */
enum { UNIT = 100 };

static struct timespec after(long units)
{
    return (struct timespec){units > 0 ? units * UNIT + UNIT / 2 : 0, 0};
}

/* pipe READ-SLOT WRITE-SLOT FLAGS */
static long do_pipe(const long *a)
{
    int ends[2];
    if (pipe2(ends, (int)a[2]) != 0)
        return -1;
    return place(ends[0], a[0]) | place(ends[1], a[1]);
}

/* Known: whether a size is too small depends on the pages in which the bytes of a pipe lie. */
static long do_pipe_size(const long *a)
{
    int unread = 0;
    if (ioctl(fd_of(a[0]), FIONREAD, &unread) == 0 && unread > 0) {
        errno = EBUSY;
        return -1;
    }
    return fcntl(fd_of(a[0]), F_SETPIPE_SZ, a[1]);
}

/* event-counter SLOT VALUE FLAGS */
static long do_event_counter(const long *a)
{
    return place(eventfd((unsigned)a[1], (int)a[2]), a[0]);
}

/* count SLOT VALUE: adds to an event counter. */
static long do_count(const long *a)
{
    uint64_t value = (uint64_t)a[1];
    int fd = fd_of(a[0]), flags = never_wait(fd);
    ssize_t written = write(fd, &value, sizeof value);
    wait_again(fd, flags);
    return written;
}

/* timer-descriptor SLOT CLOCK FLAGS */
static long do_timer_descriptor(const long *a)
{
    return place(timerfd_create((int)a[1], (int)a[2]), a[0]);
}

/* set-timer-descriptor SLOT UNITS INTERVAL-UNITS. Below 0 units, it has expired just now. */
static long do_set_timer_descriptor(const long *a)
{
    struct itimerspec time = {.it_value = after(a[1]), .it_interval = after(a[2])};
    int fd = fd_of(a[0]);
    if (a[1] < 0)
        time.it_value.tv_nsec = 1;
    if (timerfd_settime(fd, 0, &time, NULL) != 0)
        return -1;
    // Another actor that reads it may be faster.
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    if (a[1] < 0)
        poll(&polled, 1, 200);
    return 0;
}

/* signal-descriptor SLOT MASK FLAGS UPDATE */
static long do_signal_descriptor(const long *a)
{
    sigset_t set;
    sigemptyset(&set);
    memcpy(&set, &a[1], sizeof a[1]);
    if (a[3])
        return signalfd(fd_of(a[0]), &set, 0) < 0 ? -1 : 0;
    return place(signalfd(-1, &set, (int)a[2]), a[0]);
}

/* read-signals SLOT */
static long do_read_signals(const long *a)
{
    struct signalfd_siginfo info[8];
    int fd = fd_of(a[0]);
    errno = EINVAL;
    if (strcmp(kind_of(fd), "anon_inode:[signalfd]") != 0)
        return -1;
    int flags = never_wait(fd);
    ssize_t got = read(fd, info, sizeof info);
    wait_again(fd, flags);
    for (ssize_t each = 0; each < got / (ssize_t)sizeof *info; each++)
        say(" [signal %u code %d value %d from %s]", info[each].ssi_signo, info[each].ssi_code, info[each].ssi_int,
            info[each].ssi_code > 0 && info[each].ssi_signo != SIGCHLD ? "the kernel" : who((pid_t)info[each].ssi_pid));
    return got;
}

/* process-descriptor SLOT ACTOR FLAGS */
static long do_process_descriptor(const long *a)
{
    return place((int)syscall(SYS_pidfd_open, pid_of(a[1]), (unsigned)a[2]), a[0]);
}

/* signal-by-descriptor SLOT SIGNAL */
static long do_signal_by_descriptor(const long *a)
{
    return syscall(SYS_pidfd_send_signal, fd_of(a[0]), (int)a[1], NULL, 0);
}

/* steal-descriptor SLOT NUMBER NEW-SLOT: a copy of another process's descriptor. */
static long do_steal(const long *a)
{
    return place((int)syscall(SYS_pidfd_getfd, fd_of(a[0]), fd_of(a[1]), 0), a[2]);
}

const struct operation channel_operations[] = {
    {"pipe", do_pipe},
    {"pipe-size", do_pipe_size},
    {"event-counter", do_event_counter},
    {"count", do_count},
    {"timer-descriptor", do_timer_descriptor},
    {"set-timer-descriptor", do_set_timer_descriptor},
    {"signal-descriptor", do_signal_descriptor},
    {"read-signals", do_read_signals},
    {"process-descriptor", do_process_descriptor},
    {"signal-by-descriptor", do_signal_by_descriptor},
    {"steal-descriptor", do_steal},
    {0},
};
