/* Says what calls of libstandfast take, in nanoseconds, and what its table takes, in bytes a region: a line for each. With
 * `waits`, only how long the program waits for a checkpoint that it asks for. */
#include "check.h"
#include <standfast.h>
#include <time.h>

#define REGIONS 100000
#define MANY 1000000
#define STRIDE 24
#define REPEATS 101
#define BATCH 20000
#define WAITS 30

static char places[MANY][STRIDE];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *times, size_t count)
{
    qsort(times, count, sizeof *times, compare);
    return times[count / 2];
}

static long resident_bytes(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &pages, &resident) == 2 && fclose(file) == 0);
    return resident * 4096;
}

static void exclude(size_t place)
{
    CHECK(standfast_exclude(places[place], STRIDE / 2, STANDFAST_DEAD) == 0);
}

static void time_waits(void)
{
    static double waits[WAITS];
    int taken = 0;
    CHECK(standfast_exclude(places, sizeof places, STANDFAST_DEAD) == 0);
    while (taken < WAITS) {
        double begun = now();
        int what = standfast_checkpoint_here(NULL);
        waits[taken] = now() - begun;
        CHECK(what == STANDFAST_TAKEN || what == STANDFAST_NOT_TAKEN);
        taken += what == STANDFAST_TAKEN;
    }
    /* The first one saves everything. */
    printf("waits %.1f\n", median(waits + 1, WAITS - 1));
}

int main(int argc, char **argv)
{
    static double times[REPEATS], single[BATCH];
    memset(places, 1, sizeof places);
    if (argc > 1 && strcmp(argv[1], "waits") == 0) {
        time_waits();
        return 0;
    }
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double begun = now();
        for (int call = 0; call < BATCH; call++)
            CHECK(standfast_checkpoint_here(NULL) == STANDFAST_NOT_TAKEN);
        times[repeat] = (now() - begun) / BATCH;
    }
    printf("not-due %.1f\n", median(times, REPEATS));
    if (!standfast_is_protected()) {
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            double begun = now();
            for (int call = 0; call < BATCH; call++)
                exclude((size_t)call);
            times[repeat] = (now() - begun) / BATCH;
        }
        printf("exclude %.1f\n", median(times, REPEATS));
        return 0;
    }
    for (size_t place = 0; place < REGIONS; place++)
        exclude(place);
    /* One by one, so that the merges among them do not count: then the clock does. */
    for (int call = 0; call < BATCH; call++) {
        double begun = now();
        single[call] = now() - begun;
    }
    double clock = median(single, BATCH);
    uint64_t state = 1;
    for (int call = 0; call < BATCH; call++) {
        size_t place = next_number(&state) % REGIONS;
        double begun = now();
        exclude(place);
        single[call] = now() - begun;
    }
    printf("exclude %.1f\n", median(single, BATCH) - clock);
    for (size_t place = 0; place < REGIONS; place++)
        CHECK(standfast_include(places[place], STRIDE) == 0);
    long before = resident_bytes(), most = 0;
    for (size_t place = 0; place < MANY; place++) {
        exclude(place);
        if (place > MANY / 2 && place % 10000 == 0) {
            long bytes = (resident_bytes() - before) * 100 / (long)place;
            most = bytes > most ? bytes : most;
        }
    }
    printf("table %.2f\n", (double)most / 100);
    return 0;
}
