/* No system call that waits comes back with EINTR or too early because of a checkpoint or a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { COUNT = 10 };
static volatile pid_t waiting[COUNT];
static volatile int read_something;
static int quiet[2], empty[2], full[2], counter, at_top;

static int by_read(void)
{
    char bytes[4];
    return read(empty[0], bytes, 4) == 2;
}

static int by_readv(void)
{
    char bytes[4];
    struct iovec parts[2] = {{bytes, 2}, {bytes + 2, 2}};
    return readv(empty[0], parts, 2) == 2;
}

static int by_write(void)
{
    return write(full[1], "ab", 2) == 2;
}

static int by_poll(void)
{
    struct pollfd watched = {.fd = quiet[0], .events = POLLIN};
    return poll(&watched, 1, -1) == 1 && watched.revents == POLLIN;
}

static int by_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(quiet[0], &set);
    return select(quiet[0] + 1, &set, NULL, NULL, NULL) == 1;
}

static int by_epoll(int (*wait)(int, struct epoll_event *))
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x123456789abcdef0};
    int instance = epoll_create1(EPOLL_CLOEXEC);
    CHECK(instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, quiet[0], &event) == 0);
    event.data.u64 = 0;
    int count = wait(instance, &event);
    return count == 1 && event.data.u64 == 0x123456789abcdef0 && close(instance) == 0;
}

static int plain(int instance, struct epoll_event *event)
{
    return epoll_wait(instance, event, 1, -1);
}

static int newer(int instance, struct epoll_event *event)
{
    const struct timespec limit = {3000, 0};
    return (int)syscall(SYS_epoll_pwait2, instance, event, 1, &limit, NULL, 8L);
}

static int by_epoll_wait(void)
{
    return by_epoll(plain);
}

static int by_epoll_pwait2(void)
{
    return by_epoll(newer);
}

static int by_eventfd_read(void)
{
    uint64_t value;
    return read(counter, &value, 8) == 8 && value == 7;
}

static int by_eventfd_write(void)
{
    uint64_t one = 1;
    return write(at_top, &one, 8) == 8;
}

static int by_sleep(void)
{
    struct timespec then;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &then) == 0);
    then.tv_sec += 1;
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) == 0;
}

static int (*waits[COUNT])(void) = {by_read,       by_readv,        by_write,        by_poll,          by_select,
                                    by_epoll_wait, by_epoll_pwait2, by_eventfd_read, by_eventfd_write, by_sleep};
static long calls[COUNT] = {SYS_read,       SYS_readv,        SYS_write, SYS_poll,  SYS_pselect6,
                            SYS_epoll_wait, SYS_epoll_pwait2, SYS_read,  SYS_write, SYS_clock_nanosleep};

static void *thread(void *number)
{
    waiting[(long)number] = gettid();
    CHECK(waits[(long)number]());
    if ((long)number < 2)
        read_something = 1;
    return NULL;
}

int main(void)
{
    pthread_t threads[COUNT];
    /* Linux 5.11. */
    if (syscall(SYS_epoll_pwait2, -1, NULL, 0, NULL, NULL, 8L) == -1 && errno == ENOSYS)
        waits[6] = by_epoll_wait, calls[6] = SYS_epoll_wait;
    uint64_t number = 0xfffffffffffffffe;
    static char bytes[65536];
    CHECK(pipe(quiet) == 0 && pipe(empty) == 0 && pipe(full) == 0);
    CHECK((counter = eventfd(0, 0)) >= 0 && (at_top = eventfd(0, 0)) >= 0 && write(at_top, &number, 8) == 8);
    CHECK(write(full[1], bytes, sizeof bytes) == sizeof bytes);
    for (long i = 0; i < COUNT; i++) {
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
        await((volatile int *)&waiting[i]);
        if (i != 4 && i != COUNT - 1)
            await_call(waiting[i], calls[i]);
    }
    moment("all wait");
    for (int i = 0; i < COUNT - 1; i++)
        if (i != 4)
            await_call(waiting[i], calls[i]);
    CHECK(write(empty[1], "ab", 2) == 2);
    await(&read_something);
    CHECK(write(empty[1], "ab", 2) == 2 && read(full[0], bytes, 8192) == 8192);
    CHECK(read(at_top, &number, 8) == 8 && number >= 0xfffffffffffffffe);
    number = 7;
    CHECK(write(counter, &number, 8) == 8 && write(quiet[1], "!", 1) == 1);
    for (int i = 0; i < COUNT; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    puts("nobody was woken for nothing");
    return 0;
}
