/* Watches the monotonic clocks: they never go back, and an absolute sleep ends when it should, not when a clock that has
 * started again comes round to it. Halfway it waits at a gate, as the smallest victim does. */
#include "check.h"
#include <fcntl.h>
#include <time.h>

static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW};
enum { CLOCKS = sizeof clocks / sizeof *clocks, SECOND = 1000000000 };
static int64_t last[CLOCKS];

static int64_t now(clockid_t clock)
{
    struct timespec time;
    CHECK(clock_gettime(clock, &time) == 0);
    return time.tv_sec * (int64_t)SECOND + time.tv_nsec;
}

static void watch(void)
{
    for (int i = 0; i < CLOCKS; i++) {
        int64_t time = now(clocks[i]);
        CHECK(time >= last[i]);
        last[i] = time;
    }
    int64_t due = last[0] + 500000;
    struct timespec until = {due / SECOND, due % SECOND};
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0);
}

int main(int argc, char **argv)
{
    long rounds = amount(argc, argv, 200);
    for (long round = 0; round < rounds; round++)
        watch();
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    while (access("gate", F_OK) != 0)
        watch();
    for (long round = 0; round < rounds; round++)
        watch();
    puts("clocks: never back");
    return 0;
}
