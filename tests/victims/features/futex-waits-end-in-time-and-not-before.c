/* A futex wait with a time limit ends with ETIMEDOUT, not before its time and not with EINTR; one without goes on.
 *
 * expect: survive
 */
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>

enum { COUNT = 4 };
static volatile pid_t waiting[COUNT];
static uint32_t never, word;

static struct timespec now(clockid_t clock)
{
    struct timespec t;
    CHECK(clock_gettime(clock, &t) == 0);
    return t;
}

static int64_t nanoseconds(struct timespec t)
{
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *relative(void *unused)
{
    const struct timespec limit = {0, 150000000};
    (void)unused;
    waiting[0] = gettid();
    int64_t before = nanoseconds(now(CLOCK_MONOTONIC));
    CHECK(syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0) == -1 && errno == ETIMEDOUT);
    CHECK(nanoseconds(now(CLOCK_MONOTONIC)) - before >= nanoseconds(limit));
    return NULL;
}

static void *absolute(void *clock)
{
    clockid_t by = clock ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    int operation = FUTEX_WAIT_BITSET_PRIVATE | (clock ? FUTEX_CLOCK_REALTIME : 0);
    struct timespec limit = now(by);
    limit.tv_nsec += 150000000;
    if (limit.tv_nsec >= 1000000000) {
        limit.tv_nsec -= 1000000000;
        limit.tv_sec++;
    }
    waiting[clock ? 2 : 1] = gettid();
    CHECK(syscall(SYS_futex, &never, operation, 0, &limit, NULL, ~0u) == -1 && errno == ETIMEDOUT);
    CHECK(nanoseconds(now(by)) >= nanoseconds(limit));
    return NULL;
}

static void *endless(void *unused)
{
    (void)unused;
    waiting[3] = gettid();
    /* Woken by its bit only. */
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, 4) == 0);
    return NULL;
}

int main(void)
{
    pthread_t threads[COUNT];
    CHECK(pthread_create(&threads[3], NULL, endless, NULL) == 0);
    await((volatile int *)&waiting[3]);
    await_call(waiting[3], SYS_futex);
    CHECK(pthread_create(&threads[0], NULL, relative, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, absolute, NULL) == 0);
    CHECK(pthread_create(&threads[2], NULL, absolute, &never) == 0);
    for (int i = 0; i < 3; i++)
        await((volatile int *)&waiting[i]);
    moment("waiting");
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    await_call(waiting[3], SYS_futex);
    CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 9, NULL, NULL, 3) == 0);
    CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 9, NULL, NULL, 4) == 1);
    CHECK(pthread_join(threads[3], NULL) == 0);
    puts("in time");
    return 0;
}
