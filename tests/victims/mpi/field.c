/* A ring of processes that smooth a field, exchange borders and agree on sums: its state depends on every message. Prints one
 * line at the end, from process 0: the checksum. Usage: field STEPS PAGES [INTERVAL]. With FIELD_TELLS it says what it does;
 * with FIELD_CHECKS it has Reed-Solomon checks; with FIELD_UNTIL it ends before its last step as soon as there is such a file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STANDFAST_MPI_IMPLEMENTATION
#include <standfast_mpi.h>

static void check(int result, const char *what) {
    if (result >= 0) return;
    fprintf(stderr, "%s: %s\n", what, standfast_group_error());
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Numbers that are more or fewer after each step. */
static uint64_t tail[8], tail_length;

static size_t tail_size(void *context) {
    (void)context;
    return tail_length * sizeof *tail;
}

static int pack_tail(void *context, void *into, size_t bytes) {
    (void)context;
    memcpy(into, tail, bytes);
    return 0;
}

static int unpack_tail(void *context, const void *from, size_t bytes) {
    (void)context;
    memset(tail, 0, sizeof tail);
    memcpy(tail, from, bytes);
    tail_length = bytes / sizeof *tail;
    return 0;
}

/* Whether process 0 sees the file. */
static int is_enough(const char *file) {
    int enough = access(file, F_OK) == 0;
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return enough;
}

static void change_tail(uint64_t step, uint64_t with) {
    tail_length = step % 8;
    for (uint64_t at = 0; at < 8; at++) tail[at] = at < tail_length ? tail[at] * 31 + with + at : 0;
}

/* Eight pages; the middle ones are calculated again in each step, and left out of checkpoints. */
enum { SCRATCH = 8 * 512, DEAD_FROM = 2 * 512, DEAD_TO = 6 * 512 };
static uint64_t scratch[SCRATCH];

static uint64_t change_scratch(uint64_t step, uint64_t with) {
    uint64_t sum = 0;
    for (int at = DEAD_FROM; at < DEAD_TO; at++) scratch[at] = step * (uint64_t)at + with;
    for (int at = DEAD_FROM; at < DEAD_TO; at++) sum = sum * 31 + scratch[at];
    scratch[step % DEAD_FROM] += sum;
    scratch[DEAD_TO + step % DEAD_FROM] ^= sum;
    return sum;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    uint64_t last = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    size_t count = (argc > 2 ? strtoull(argv[2], NULL, 10) : 64) * 512;
    uint64_t every = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    uint64_t step = 0, *field = calloc(count, sizeof *field);
    for (size_t at = 0; at < count; at++) field[at] = at * 2654435761u + (uint64_t)rank;

    standfast_group *group;
    standfast_group_options options = {.size = sizeof options};
    options.code = getenv("FIELD_CHECKS") != NULL ? STANDFAST_REED_SOLOMON : STANDFAST_PARITY;
    int joined = standfast_mpi_join(MPI_COMM_WORLD, &options, &group);
    check(joined, "join");
    check(standfast_group_protect(group, 0, &step, 1, sizeof step), "protect");
    check(standfast_group_protect(group, 1, field, count, sizeof *field), "protect");
    check(standfast_group_protect_packed(group, 2, tail_size, pack_tail, unpack_tail, NULL), "protect_packed");
    check(standfast_group_protect(group, 3, scratch, SCRATCH, sizeof *scratch), "protect");
    check(standfast_group_exclude(group, 3, DEAD_FROM * sizeof *scratch, (DEAD_TO - DEAD_FROM) * sizeof *scratch),
          "exclude");
    if (joined != STANDFAST_NEW) check(standfast_group_restore(group), "restore");
    int tells = getenv("FIELD_TELLS") != NULL;
    if (tells) fprintf(stderr, "rank %d joined as %d at step %lu\n", rank, joined, (unsigned long)step);

    const char *until = getenv("FIELD_UNTIL");
    /* One step at least: what is left out of checkpoints is calculated again in it. */
    for (int enough = 0; step < last && !enough; enough = until != NULL && is_enough(until)) {
        uint64_t mine = field[step % count], left = 0, all = 0;
        MPI_Sendrecv(&mine, 1, MPI_UINT64_T, (rank + 1) % ranks, 1, &left, 1, MPI_UINT64_T, (rank + ranks - 1) % ranks, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
        step++;
        change_tail(step, left);
        all += change_scratch(step, left);
        for (size_t at = step % 97; at < count; at += 4099) field[at] = field[at] * 31 + left + all + step;
        if (step % every == 0) {
            struct timespec begin, end;
            clock_gettime(CLOCK_MONOTONIC, &begin);
            check(standfast_group_checkpoint(group), "checkpoint");
            clock_gettime(CLOCK_MONOTONIC, &end);
            double milliseconds = (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_nsec - begin.tv_nsec) / 1e6;
            if (tells && rank == 0) fprintf(stderr, "epoch %lu in %.3f ms\n", (unsigned long)step, milliseconds);
        }
    }
    uint64_t sum = step, total = 0;
    for (int at = 0; at < 8; at++) sum = sum * 31 + tail[at];
    for (int at = 0; at < SCRATCH; at++) sum = sum * 31 + scratch[at];
    for (size_t at = 0; at < count; at++) sum = sum * 1099511628211u + field[at];
    MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
    check(standfast_group_finish(group), "finish");
    if (tells && rank == 0) fprintf(stderr, "ended at step %lu\n", (unsigned long)step);
    if (rank == 0) printf("%016lx\n", (unsigned long)total);
    MPI_Finalize();
    return 0;
}
