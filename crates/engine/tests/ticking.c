// Asks for the time in all ways, which leads through the kernel's code in the program; writes that all went forward.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/time.h>
#include <time.h>

static long long nanoseconds(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now)) exit(3);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

int main(int count_of_arguments, char **arguments) {
    FILE *ready = count_of_arguments > 2 ? fopen(arguments[2], "w") : NULL;
    long long start = nanoseconds(CLOCK_MONOTONIC), last = start;
    if (ready && fclose(ready)) return 4;
    while (last < start + 1500000000ll) {
        long long now = nanoseconds(CLOCK_MONOTONIC), own = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
        struct timeval day;
        struct timespec step;
        if (now < last || own < 0) return 5;
        if (gettimeofday(&day, NULL) || labs(time(NULL) - day.tv_sec) > 1) return 6;
        if (sched_getcpu() < 0 || clock_getres(CLOCK_MONOTONIC, &step)) return 7;
        last = now;
        struct timespec moment = {0, 100000};
        nanosleep(&moment, NULL);
    }
    FILE *result = count_of_arguments > 1 ? fopen(arguments[1], "w") : stdout;
    if (!result) return 8;
    fprintf(result, "forward\n");
    return fclose(result) ? 9 : 0;
}
