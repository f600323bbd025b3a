/* A rank that knows nothing of Standfast: it computes for a millisecond, exchanges some KiB with both neighbours, and so on. Alone
 * it only computes: a rank of an MPI program that waits for another one keeps its processor busy as well. When the file
 * DIRECTORY/go-RANK appears, it writes to one page in a hundred and removes the file. It runs until it is killed.
 *
 *   ring MEGABYTES DIRECTORY KILOBYTES        as a rank of an MPI program, with messages of this size
 *   ring MEGABYTES DIRECTORY KILOBYTES RANK   alone, without any exchange
 *
 * Tells that it is ready by a file DIRECTORY/ready-RANK. */
#include <mpi.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, COMPUTED_MICROSECONDS = 1000, ONE_IN = 100 };

static void exchange(char *sent, char *received, int size, int rank, int ranks) {
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    for (int turn = 0; turn < 2; turn++) {
        int to = turn ? last : next, from = turn ? next : last;
        MPI_Sendrecv(sent, size, MPI_BYTE, to, 0, received, size, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Keeps the processor busy. */
static void compute(void) {
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000 + (now.tv_nsec - from.tv_nsec) / 1000 < COMPUTED_MICROSECONDS);
}

int main(int count, char **words) {
    if (count < 4) return 2;
    int is_alone = count > 4, rank = is_alone ? atoi(words[4]) : 0, ranks = 1, size = atoi(words[3]) << 10;
    if (!is_alone) {
        MPI_Init(&count, &words);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    }
    size_t pages = (strtoul(words[1], NULL, 10) << 20) / PAGE, first = 0;
    char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *sent = calloc(1, size), *received = calloc(1, size);
    if (!sent || !received || memory == MAP_FAILED || madvise(memory, pages * PAGE, MADV_NOHUGEPAGE) != 0) return 3;
    uint64_t random = 1 + (uint64_t)rank;
    for (size_t word = 0; word < pages * PAGE / 8; word++)
        ((uint64_t *)memory)[word] = random = random * 6364136223846793005u + 1442695040888963407u;
    char go[4096], ready[4096];
    snprintf(go, sizeof go, "%s/go-%d", words[2], rank);
    snprintf(ready, sizeof ready, "%s/ready-%d", words[2], rank);
    close(open(ready, O_CREAT | O_WRONLY, 0600));
    for (;;) {
        if (!is_alone) exchange(sent, received, size, rank, ranks);
        if (access(go, F_OK) == 0) {
            for (size_t page = first++ % ONE_IN; page < pages; page += ONE_IN) memory[page * PAGE]++;
            unlink(go);
        }
        compute();
    }
}
