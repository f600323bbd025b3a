/* A wait with a time limit does not begin again with each checkpoint or restart: it ends when its limit is reached.
 *
 * expect: survive
 */
#include "check.h"
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>

/* The waits are met early in their time, and once more when a quarter of it is left. That is over sooner than a shorter
 * wait that begins then; all of it would not be. */
enum { LIMIT = 1200, SPENT = 900, SHORTER = 800, COUNT = 11 };

static const struct timespec limit = {LIMIT / 1000, LIMIT % 1000 * 1000000};
static const struct timeval socket_limit = {LIMIT / 1000, LIMIT % 1000 * 1000};
static volatile pid_t waiting[COUNT];
static volatile int has_ended[COUNT];
static int instance, pairs[2][2], listener;
static uint32_t never;

static int by_epoll_wait(void)
{
    struct epoll_event event;
    return epoll_wait(instance, &event, 1, LIMIT) == 0;
}

static int by_epoll_pwait(void)
{
    struct epoll_event event;
    sigset_t none;
    CHECK(sigemptyset(&none) == 0);
    return epoll_pwait(instance, &event, 1, LIMIT, &none) == 0;
}

static int by_epoll_pwait2(void)
{
    struct epoll_event event;
    return syscall(SYS_epoll_pwait2, instance, &event, 1, &limit, NULL, 8L) == 0;
}

static int by_poll(void)
{
    struct pollfd watched = {.fd = pairs[0][0], .events = POLLIN};
    return poll(&watched, 1, LIMIT) == 0 && watched.revents == 0;
}

static int by_select(void)
{
    struct timeval remaining = socket_limit;
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pairs[0][0], &set);
    return select(pairs[0][0] + 1, &set, NULL, NULL, &remaining) == 0;
}

static int by_nanosleep(void)
{
    return syscall(SYS_nanosleep, &limit, NULL) == 0;
}

static int by_clock_nanosleep(void)
{
    struct timespec remaining;
    return clock_nanosleep(CLOCK_BOOTTIME, 0, &limit, &remaining) == 0;
}

static int by_futex(void)
{
    return syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0) == -1 && errno == ETIMEDOUT;
}

static int by_sigtimedwait(void)
{
    sigset_t set;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGRTMIN + 3) == 0);
    return sigtimedwait(&set, NULL, &limit) == -1 && errno == EAGAIN;
}

static int by_read(void)
{
    char byte;
    return read(pairs[1][0], &byte, 1) == -1 && errno == EAGAIN;
}

static int by_accept(void)
{
    return accept(listener, NULL, NULL) == -1 && errno == EAGAIN;
}

static int (*waits[COUNT])(void) = {by_epoll_wait, by_epoll_pwait,     by_epoll_pwait2, by_poll,
                                    by_select,     by_nanosleep,       by_clock_nanosleep, by_futex,
                                    by_sigtimedwait, by_read,          by_accept};
static long calls[COUNT] = {SYS_epoll_wait,      SYS_epoll_pwait, SYS_epoll_pwait2,    SYS_poll,
                            SYS_pselect6,        SYS_nanosleep,   SYS_clock_nanosleep, SYS_futex,
                            SYS_rt_sigtimedwait, SYS_read,        SYS_accept};

static void *thread(void *number)
{
    waiting[(long)number] = gettid();
    errno = 0;
    if (!waits[(long)number]())
        fprintf(stderr, "victim: call %ld ended otherwise: %s\n", calls[(long)number], strerror(errno)), _exit(9);
    has_ended[(long)number] = 1;
    return NULL;
}

static void sleep_for(long milliseconds)
{
    struct timespec then;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &then) == 0);
    then.tv_nsec += milliseconds * 1000000;
    then.tv_sec += then.tv_nsec / 1000000000;
    then.tv_nsec %= 1000000000;
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) == 0);
}

int main(void)
{
    pthread_t threads[COUNT];
    /* Linux 5.11. */
    if (syscall(SYS_epoll_pwait2, -1, NULL, 0, NULL, NULL, 8L) == -1 && errno == ENOSYS)
        waits[2] = by_epoll_wait, calls[2] = SYS_epoll_wait;
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    CHECK((instance = epoll_create1(0)) >= 0 && (listener = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
    CHECK(bind(listener, (struct sockaddr *)&any, sizeof any.sun_family) == 0 && listen(listener, 1) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]) == 0);
    CHECK(setsockopt(pairs[1][0], SOL_SOCKET, SO_RCVTIMEO, &socket_limit, sizeof socket_limit) == 0);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &socket_limit, sizeof socket_limit) == 0);
    sigset_t waited_for;
    CHECK(sigemptyset(&waited_for) == 0 && sigaddset(&waited_for, SIGRTMIN + 3) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &waited_for, NULL) == 0);
    for (long i = 0; i < COUNT; i++) {
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
        await((volatile int *)&waiting[i]);
        await_call(waiting[i], calls[i]);
    }
    moment("they begin");
    sleep_for(SPENT);
    moment("a quarter is left");
    sleep_for(SHORTER);
    for (int i = 0; i < COUNT; i++)
        if (!has_ended[i]) {
            fprintf(stderr, "victim: call %ld has begun its limit again\n", calls[i]);
            _exit(9);
        }
    for (int i = 0; i < COUNT; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    puts("all waits ended in time");
    return 0;
}
