/* System calls that wait, each in a thread of its own, for ever in the middle of one. None may come back before its time
 * or with EINTR: no signal is ever sent here. */
#include "check.h"
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>

static long rounds;
static int to_reader[2], quiet[2];
static _Atomic uint32_t word, never;
static sem_t baton;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const struct timespec some = {0, 17000000};

static int64_t now(clockid_t clock)
{
    struct timespec t;
    CHECK(clock_gettime(clock, &t) == 0);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct timespec after(clockid_t clock, int64_t nanoseconds)
{
    int64_t then = now(clock) + nanoseconds;
    return (struct timespec){then / 1000000000, then % 1000000000};
}

static void *sleeper(void *unused)
{
    (void)unused;
    int64_t last = 0;
    for (long i = 0; i < rounds; i++) {
        int64_t before = now(CLOCK_MONOTONIC);
        CHECK(before >= last);
        CHECK(nanosleep(&some, NULL) == 0);
        last = now(CLOCK_MONOTONIC);
        CHECK(last - before >= 17000000);
    }
    return NULL;
}

static void *punctual_sleeper(void *unused)
{
    (void)unused;
    for (long i = 0; i < rounds; i++) {
        struct timespec then = after(CLOCK_MONOTONIC, 17000000);
        CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) == 0);
        CHECK(now(CLOCK_MONOTONIC) >= then.tv_sec * 1000000000 + then.tv_nsec);
    }
    return NULL;
}

static void *poller(void *unused)
{
    (void)unused;
    for (long i = 0; i < rounds; i++) {
        struct pollfd watched = {.fd = quiet[0], .events = POLLIN};
        CHECK(poll(&watched, 1, 17) == 0);
        CHECK(ppoll(&watched, 1, &some, NULL) == 0);
    }
    return NULL;
}

static void *selecter(void *unused)
{
    (void)unused;
    for (long i = 0; i < rounds; i++) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(quiet[0], &set);
        struct timeval time = {0, 17000};
        CHECK(select(quiet[0] + 1, &set, NULL, NULL, &time) == 0);
    }
    return NULL;
}

static void *epoll_waiter(void *unused)
{
    (void)unused;
    int instance = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1122334455667788};
    CHECK(instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, quiet[0], &event) == 0);
    for (long i = 0; i < rounds; i++) {
        CHECK(epoll_wait(instance, &event, 1, 17) == 0);
        CHECK(epoll_pwait(instance, &event, 1, 17, NULL) == 0);
        CHECK(syscall(SYS_epoll_pwait2, instance, &event, 1, &some, NULL, 8L) == 0);
    }
    return NULL;
}

static void *futex_waiter(void *unused)
{
    (void)unused;
    for (long i = 0; i < rounds; i++) {
        errno = 0;
        CHECK(syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &some, NULL, 0) == -1 && errno == ETIMEDOUT);
        struct timespec then = after(CLOCK_REALTIME, 17000000);
        errno = 0;
        CHECK(syscall(SYS_futex, &never, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &then, NULL, ~0u) == -1 &&
              errno == ETIMEDOUT);
    }
    return NULL;
}

static void *condition_waiter(void *unused)
{
    (void)unused;
    for (long i = 0; i < rounds; i++) {
        struct timespec then = after(CLOCK_REALTIME, 17000000);
        CHECK(pthread_mutex_lock(&lock) == 0);
        CHECK(pthread_cond_timedwait(&changed, &lock, &then) == ETIMEDOUT);
        CHECK(pthread_mutex_unlock(&lock) == 0);
    }
    return NULL;
}

static void *signal_waiter(void *unused)
{
    (void)unused;
    sigset_t set;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGRTMIN + 7) == 0);
    for (long i = 0; i < rounds; i++) {
        errno = 0;
        CHECK(sigtimedwait(&set, NULL, &some) == -1 && errno == EAGAIN);
    }
    return NULL;
}

/* Waits without a time limit, for what the main thread sends. */
static void *reader(void *sum)
{
    uint64_t received;
    while (read(to_reader[0], &received, sizeof received) == sizeof received)
        *(uint64_t *)sum = fold(*(uint64_t *)sum, &received, sizeof received);
    CHECK(errno == 0);
    return NULL;
}

static void *futex_follower(void *unused)
{
    (void)unused;
    for (uint32_t seen = 0; seen < (uint32_t)rounds;) {
        errno = 0;
        long woken = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        CHECK(woken == 0 || errno == EAGAIN);
        CHECK(word >= seen);
        seen = word;
    }
    return NULL;
}

static void *baton_taker(void *unused)
{
    (void)unused;
    for (long i = 0; i < rounds; i++)
        CHECK(sem_wait(&baton) == 0);
    return NULL;
}

int main(int argc, char **argv)
{
    static void *(*const waiters[])(void *) = {sleeper,      punctual_sleeper, poller,        selecter,
                                               epoll_waiter, futex_waiter,     condition_waiter, signal_waiter,
                                               reader,       futex_follower,   baton_taker};
    enum { COUNT = sizeof waiters / sizeof *waiters };
    pthread_t threads[COUNT];
    uint64_t received = FOLD_START, random = 5;
    rounds = amount(argc, argv, 40);
    CHECK(pipe(to_reader) == 0 && pipe(quiet) == 0 && sem_init(&baton, 0, 0) == 0);
    sigset_t waited_for;
    CHECK(sigemptyset(&waited_for) == 0 && sigaddset(&waited_for, SIGRTMIN + 7) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &waited_for, NULL) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(pthread_create(&threads[i], NULL, waiters[i], &received) == 0);
    for (long i = 0; i < rounds; i++) {
        CHECK(usleep(40000) == 0);
        uint64_t number = next_number(&random);
        CHECK(write(to_reader[1], &number, sizeof number) == sizeof number);
        word++;
        CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) >= 0);
        CHECK(sem_post(&baton) == 0);
    }
    CHECK(close(to_reader[1]) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("waits: received %016lx in %ld rounds\n", (unsigned long)received, rounds);
    return 0;
}
