/* A wait that had lasted for long when the first checkpoint met it goes on with the time that is left, also in a new process.
 *
 * expect: survive
 */
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

/* It is met when a quarter of its time is left. That is over sooner than a shorter wait that begins then; all of it would
 * not be. */
enum { LIMIT = 1200, SPENT = 900, SHORTER = 800, COUNT = 3 };

static const struct timespec limit = {LIMIT / 1000, LIMIT % 1000 * 1000000};
static volatile pid_t waiting[COUNT];
static volatile int has_ended[COUNT];
static uint32_t never;

static int by_epoll_wait(void)
{
    struct epoll_event event;
    int instance = epoll_create1(0);
    return instance >= 0 && epoll_wait(instance, &event, 1, LIMIT) == 0;
}

static int by_nanosleep(void)
{
    return syscall(SYS_nanosleep, &limit, NULL) == 0;
}

static int by_futex(void)
{
    return syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0) == -1 && errno == ETIMEDOUT;
}

static int (*const waits[COUNT])(void) = {by_epoll_wait, by_nanosleep, by_futex};
static const long calls[COUNT] = {SYS_epoll_wait, SYS_nanosleep, SYS_futex};

static void *thread(void *number)
{
    waiting[(long)number] = gettid();
    CHECK(waits[(long)number]());
    has_ended[(long)number] = 1;
    return NULL;
}

int main(void)
{
    pthread_t threads[COUNT];
    FILE *told = fopen("/proc/self/sched", "r");
    if (told == NULL)
        LACKS("word of when a thread ran last (CONFIG_SCHED_DEBUG)");
    CHECK(fclose(told) == 0);
    for (long i = 0; i < COUNT; i++) {
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
        await((volatile int *)&waiting[i]);
        await_call(waiting[i], calls[i]);
    }
    CHECK(usleep(SPENT * 1000) == 0);
    moment("a quarter is left");
    CHECK(usleep(SHORTER * 1000) == 0);
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
