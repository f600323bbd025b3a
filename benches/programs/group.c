/* Times of a group of ranks, told one a line by rank 0: NAME MILLISECONDS. Its code is parity, or Reed-Solomon with two checks.
 * Beside each checkpoint by parity, in turn with it, what its bytes cost without us: the same number of bytes around a ring, in
 * long pieces and in short ones, a copy of them in memory, and the same sums by MPI_Reduce.
 *
 *   group MEGABYTES ROUNDS parity|solomon
 *
 * Ends without leaving the group, so that another launch goes back to what it holds. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STANDFAST_MPI_IMPLEMENTATION
#include <standfast_mpi.h>

enum { PAGE = 4096, WORDS = PAGE / 8, WINDOW = 4 };
/* TCP's MPI sends at once what is shorter than 64 KiB, and so do we. */
enum { LONG = 256 << 10, SHORT = 15 * PAGE };

static int rank, ranks;
static size_t bytes;

static int check(int result, const char *what) {
    if (result == 0 || (result > 0 && strcmp(what, "join") == 0)) return result;
    fprintf(stderr, "%s: %s\n", what, standfast_group_error());
    MPI_Abort(MPI_COMM_WORLD, 3);
    return result;
}

static double begin(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

/* Until the last rank is done. */
static void tell(const char *name, double since) {
    double took = MPI_Wtime() - since, longest;
    MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%s %.3f\n", name, longest * 1e3);
}

/* Each with each, as all that is measured later finds it. */
static void connect(void) {
    char *words = calloc(2, (size_t)ranks);
    MPI_Alltoall(words, 1, MPI_BYTE, words + ranks, 1, MPI_BYTE, MPI_COMM_WORLD);
    free(words);
}

/* Changes each word of one page in so many, beyond what could be packed. */
static void change(uint64_t *field, size_t one_in) {
    for (size_t page = 0; page < bytes / PAGE; page += one_in)
        for (size_t word = page * WORDS; word < (page + 1) * WORDS; word++)
            field[word] = field[word] * 6364136223846793005u + 1442695040888963407u + (uint64_t)rank;
}

static void checkpoint(standfast_group *group, const char *name) {
    double since = begin();
    check(standfast_group_checkpoint(group), "checkpoint");
    tell(name, since);
}

/* As many bytes as parity sends from each rank to the next: all once, in pieces of so many. */
static void ring(const char *field, size_t length, const char *name) {
    static char arriving[WINDOW][LONG];
    MPI_Request sends[WINDOW], receives[WINDOW];
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    size_t pieces = bytes / length;
    double since = begin();
    for (size_t piece = 0; piece < pieces + WINDOW; piece++) {
        size_t slot = piece % WINDOW;
        if (piece >= WINDOW) {
            MPI_Wait(&sends[slot], MPI_STATUS_IGNORE);
            MPI_Wait(&receives[slot], MPI_STATUS_IGNORE);
        }
        if (piece < pieces) {
            MPI_Irecv(arriving[slot], (int)length, MPI_BYTE, last, 1, MPI_COMM_WORLD, &receives[slot]);
            MPI_Isend(field + piece * length, (int)length, MPI_BYTE, next, 1, MPI_COMM_WORLD, &sends[slot]);
        }
    }
    tell(name, since);
}

/* The same sums as parity has in place, one root after the other; a root adds nothing to its own. */
static void reduce(char *field) {
    size_t part = bytes / (size_t)(ranks - 1) / 8 * 8;
    static char *sum, *zeros;
    if (sum == NULL) sum = malloc(part), zeros = calloc(1, part), memset(sum, 1, part);
    double since = begin();
    for (int root = 0, at = 0; root < ranks; root++) {
        char *own = root == rank ? zeros : field + (size_t)at++ * part;
        MPI_Reduce(own, sum, (int)(part / 8), MPI_UINT64_T, MPI_BXOR, root, MPI_COMM_WORLD);
    }
    tell("reduce", since);
}

/* A virtual machine gives free memory back to its host, and then the first touch of a page takes several times as long: that is
 * not what is measured, so all together touch more than a lost rank takes just before, in large pages as it does, and free it
 * again. */
static void take_memory_back(void) {
    volatile char *memory = aligned_alloc(2 << 20, bytes);
    madvise((void *)memory, bytes, MADV_HUGEPAGE);
    for (size_t at = 0; at < bytes; at += PAGE) memory[at] = 1;
    free((void *)memory);
}

/* What a checkpoint cannot do without, beside sending its bytes: a copy of them. */
static void copy(const char *field) {
    static char *copied;
    if (copied == NULL) copied = malloc(bytes), memset(copied, 1, bytes);
    double since = begin();
    memcpy(copied, field, bytes);
    tell("copy", since);
}

/* Joins, and goes back if there is something to go back to. */
static standfast_group *joined(int code, uint64_t *field, const char *name) {
    standfast_group_options options = {.size = sizeof options, .job = "bench", .code = code};
    standfast_group *group;
    take_memory_back();
    double since = begin();
    int how = check(standfast_mpi_join(MPI_COMM_WORLD, &options, &group), "join");
    if (how != STANDFAST_NEW) tell(name, since);
    check(standfast_group_protect(group, 0, field, bytes, 1), "protect");
    if (how != STANDFAST_NEW) {
        since = begin();
        check(standfast_group_restore(group), "restore");
        if (code == STANDFAST_PARITY) tell("restore", since);
    }
    return group;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    setvbuf(stdout, NULL, _IOLBF, 0);
    bytes = (argc > 1 ? strtoull(argv[1], NULL, 10) : 64) << 20;
    int rounds = argc > 2 ? atoi(argv[2]) : 3;
    int is_parity = argc < 4 || strcmp(argv[3], "parity") == 0;
    uint64_t *field = aligned_alloc(PAGE, bytes);
    for (size_t word = 0; word < bytes / 8; word++) field[word] = word * 2654435761u + (uint64_t)rank;
    connect();
    standfast_group *group = is_parity ? joined(STANDFAST_PARITY, field, "rebuild-parity")
                                       : joined(STANDFAST_REED_SOLOMON, field, "rebuild-solomon");
    /* The first epoch has no other before it, and the second takes fresh memory. */
    for (int at = 0; at < 2; at++) {
        change(field, 1);
        check(standfast_group_checkpoint(group), "checkpoint");
    }
    for (int round = 0; round < rounds; round++) {
        if (is_parity) {
            ring((char *)field, LONG, "transfer");
            ring((char *)field, SHORT, "transfer-short");
            copy((char *)field);
        }
        change(field, 1);
        checkpoint(group, is_parity ? "parity" : "solomon");
        if (!is_parity) continue;
        reduce((char *)field);
        change(field, 100);
        checkpoint(group, "one-percent");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
