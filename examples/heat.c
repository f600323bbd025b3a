/* heat: the 2-D heat equation on a square plate, by Jacobi steps, on several threads.
 *
 * A plain numerical program that knows nothing of checkpoints: `make demo` kills it and continues it. Two grids, one
 * barrier a step, every thread its own band of rows. The result file is opened at the start and grows as the run goes:
 * residuals as hexadecimal floating point, at the end a checksum over the bits of every cell. The arithmetic does not
 * depend on the number of threads, so two runs with equal STEPS and SIZE must leave equal files, bit for bit.
 *
 * cc -O2 -pthread -o heat heat.c -lm       usage: heat RESULT [STEPS [SIZE [THREADS]]]
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 64, REPORTS = 20 };

static const double HOT_EDGE = 100.0;
static const double DIFFUSION = 0.24; /* explicit steps are stable below 0.25 */

static long steps = 2400, size = 2048, threads = 2, report_every;
static double *plate, *next_plate;
static double residuals[THREADS_MAX];
static pthread_barrier_t step_done;
static FILE *result;

static void fail(const char *what)
{
    fprintf(stderr, "heat: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* One step for the rows first..last; returns the largest change of a cell. */
static double relax(const double *from, double *to, long first, long last)
{
    double largest = 0.0;
    for (long row = first; row <= last; row++) {
        const double *mid = from + row * size, *up = mid - size, *down = mid + size;
        for (long col = 1; col < size - 1; col++) {
            double change = DIFFUSION * (up[col] + down[col] + mid[col - 1] + mid[col + 1] - 4.0 * mid[col]);
            to[row * size + col] = mid[col] + change;
            largest = fabs(change) > largest ? fabs(change) : largest;
        }
    }
    return largest;
}

static void report(long step)
{
    double residual = 0.0;
    for (long thread = 0; thread < threads; thread++)
        residual = residuals[thread] > residual ? residuals[thread] : residual;
    printf("step %5ld of %ld   residual %.9f\n", step, steps, residual);
    fflush(stdout);
    fprintf(result, "step %ld residual %a\n", step, residual);
    fflush(result);
}

static void *work(void *argument)
{
    long thread = (long)(intptr_t)argument;
    long first = 1 + thread * (size - 2) / threads, last = (thread + 1) * (size - 2) / threads;
    double *from = plate, *to = next_plate;
    for (long step = 1; step <= steps; step++) {
        double residual = relax(from, to, first, last);
        int reporting = step % report_every == 0;
        if (reporting)
            residuals[thread] = residual;
        pthread_barrier_wait(&step_done);
        /* The next write to residuals lies behind another barrier, as report_every is at least 2. */
        if (reporting && thread == 0)
            report(step);
        double *swap = from;
        from = to;
        to = swap;
    }
    return NULL;
}

/* FNV-1a over the bytes of the plate: one flipped bit anywhere shows. */
static uint64_t checksum(const double *cells)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (long cell = 0; cell < size * size; cell++) {
        uint64_t bits;
        memcpy(&bits, &cells[cell], sizeof bits);
        for (int shift = 0; shift < 64; shift += 8)
            hash = (hash ^ (bits >> shift & 0xff)) * 0x100000001b3u;
    }
    return hash;
}

static void heat_the_edge(double *cells)
{
    for (long col = 0; col < size; col++)
        cells[col] = HOT_EDGE;
}

static long number(const char *text, long least, long most)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*end != '\0' || value < least || value > most) {
        fprintf(stderr, "heat: %s is not a number from %ld to %ld\n", text, least, most);
        exit(2);
    }
    return value;
}

int main(int count, char **words)
{
    if (count < 2 || count > 5) {
        fprintf(stderr, "usage: heat RESULT [STEPS [SIZE [THREADS]]]\n");
        return 2;
    }
    if (count > 2)
        steps = number(words[2], 1, 1000000000);
    if (count > 3)
        size = number(words[3], 3, 32768);
    if (count > 4)
        threads = number(words[4], 1, THREADS_MAX);
    report_every = steps / REPORTS > 2 ? steps / REPORTS : 2;

    plate = calloc((size_t)(size * size), sizeof *plate);
    next_plate = calloc((size_t)(size * size), sizeof *next_plate);
    if (!plate || !next_plate)
        fail("memory for the plate");
    heat_the_edge(plate);
    heat_the_edge(next_plate);
    if (!(result = fopen(words[1], "w")))
        fail(words[1]);

    pthread_t workers[THREADS_MAX];
    pthread_barrier_init(&step_done, NULL, (unsigned)threads);
    for (long thread = 0; thread < threads; thread++)
        if ((errno = pthread_create(&workers[thread], NULL, work, (void *)(intptr_t)thread)))
            fail("a thread");
    for (long thread = 0; thread < threads; thread++)
        pthread_join(workers[thread], NULL);

    uint64_t sum = checksum(steps % 2 ? next_plate : plate);
    fprintf(result, "checksum %016llx\n", (unsigned long long)sum);
    if (fclose(result))
        fail(words[1]);
    printf("checksum %016llx over %ld cells\n", (unsigned long long)sum, size * size);
    return 0;
}
