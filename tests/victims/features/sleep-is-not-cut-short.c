/* A sleep that a checkpoint falls into lasts its full time and does not end with EINTR.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>

static volatile int asleep, is_done;

static void *sleep_long(void *unused)
{
    const struct timespec while_ = {0, 60000000};
    struct timespec before, after;
    (void)unused;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &before) == 0);
    asleep = 1;
    CHECK(nanosleep(&while_, NULL) == 0);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &after) == 0);
    CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >= while_.tv_nsec);
    is_done = 1;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleep_long, NULL) == 0);
    while (!asleep)
        usleep(100);
    moment("asleep");
    CHECK(pthread_join(thread, NULL) == 0 && is_done);
    puts("slept");
    return 0;
}
