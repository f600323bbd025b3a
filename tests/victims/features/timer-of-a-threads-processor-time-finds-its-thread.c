/* A timer on the processor time of one thread goes on measuring that thread and no other.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>

static timer_t by_name[2], by_self;
static pthread_barrier_t barrier;

static timer_t make(clockid_t clock)
{
    struct sigevent event;
    timer_t timer;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_NONE;
    CHECK(timer_create(clock, &event, &timer) == 0);
    struct itimerspec time = {{0, 0}, {1000, 0}};
    CHECK(timer_settime(timer, 0, &time, NULL) == 0);
    return timer;
}

static int64_t left(timer_t timer)
{
    struct itimerspec time;
    CHECK(timer_gettime(timer, &time) == 0);
    return time.it_value.tv_sec * 1000000000ll + time.it_value.tv_nsec;
}

static void burn(void)
{
    struct timespec start, now;
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start) == 0);
    do
        CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    while ((now.tv_sec - start.tv_sec) * 1000000000ll + now.tv_nsec - start.tv_nsec < 50000000);
}

static void *work(void *which)
{
    int place = *(int *)which;
    clockid_t own;
    CHECK(pthread_getcpuclockid(pthread_self(), &own) == 0);
    by_name[place] = make(own);
    if (place == 1)
        by_self = make(CLOCK_THREAD_CPUTIME_ID);
    pthread_barrier_wait(&barrier);
    for (int turn = 0; turn < 2; turn++) {
        pthread_barrier_wait(&barrier);
        if (turn == place)
            burn();
        pthread_barrier_wait(&barrier);
    }
    /* The timer of a thread that has ended tells nothing. */
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int places[2] = {0, 1};
    CHECK(pthread_barrier_init(&barrier, NULL, 3) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, work, &places[i]) == 0);
    pthread_barrier_wait(&barrier);
    moment("timers measure");
    for (int turn = 0; turn < 2; turn++) {
        int64_t before[3] = {left(by_name[0]), left(by_name[1]), left(by_self)};
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        int64_t gone[3] = {before[0] - left(by_name[0]), before[1] - left(by_name[1]), before[2] - left(by_self)};
        CHECK(gone[turn] >= 50000000);
        CHECK(gone[1 - turn] < 25000000);
        CHECK(turn == 1 ? gone[2] >= 50000000 : gone[2] < 25000000);
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    puts("timers of threads: each measures its own");
    return 0;
}
