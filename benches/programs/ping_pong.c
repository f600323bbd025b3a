/* Two ranks that send eight bytes to and fro, and know nothing of Standfast. When the file DIRECTORY/go-RANK appears, a rank takes
 * part in one burst, and then removes the file. The first rank has then written how long the burst took, in nanoseconds, to
 * DIRECTORY/took. Between bursts both sleep. They run until they are killed.
 *
 *   ping_pong DIRECTORY
 *
 * Tells that it is ready by a file DIRECTORY/ready-RANK. Each rank has a processor of its own: where the scheduler happens to put
 * them makes more of a difference than what is to be measured. */
#define _GNU_SOURCE
#include <mpi.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WARM_TURNS = 500, TURNS = 5000, POLL_MICROSECONDS = 1000 };

static void turns(int rank, int count) {
    uint64_t ball = 0;
    for (int turn = 0; turn < count; turn++) {
        if (rank == 0) MPI_Send(&ball, 1, MPI_UINT64_T, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(&ball, 1, MPI_UINT64_T, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(&ball, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD);
    }
}

static void stay_on(int processor) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(processor % sysconf(_SC_NPROCESSORS_ONLN), &only);
    sched_setaffinity(0, sizeof only, &only);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    if (count < 2 || chdir(words[1]) != 0) return 2;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    stay_on(rank);
    char go[64], ready[64];
    snprintf(go, sizeof go, "go-%d", rank);
    snprintf(ready, sizeof ready, "ready-%d", rank);
    close(open(ready, O_CREAT | O_WRONLY, 0600));
    for (;;) {
        while (access(go, F_OK) != 0) usleep(POLL_MICROSECONDS);
        turns(rank, WARM_TURNS);
        struct timespec from, now;
        clock_gettime(CLOCK_MONOTONIC, &from);
        turns(rank, TURNS);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (rank == 0) {
            FILE *took = fopen("took", "w");
            if (!took) return 3;
            fprintf(took, "%lld\n", (now.tv_sec - from.tv_sec) * 1000000000LL + now.tv_nsec - from.tv_nsec);
            fclose(took);
        }
        unlink(go);
    }
}
