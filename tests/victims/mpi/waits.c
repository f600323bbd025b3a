/* Process 0 comes late to a checkpoint: the others wait in it. Prints the most processor time, in milliseconds, that one of them
 * has taken meanwhile. Usage: waits SECONDS */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define STANDFAST_MPI_IMPLEMENTATION
#include <standfast_mpi.h>

#include "must.h"

static double spent(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

int main(int argc, char **argv) {
    standfast_group *group;
    int rank, step = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    must(standfast_mpi_join(MPI_COMM_WORLD, NULL, &group), "join");
    must(standfast_group_protect(group, 0, &step, 1, sizeof step), "protect");
    must(standfast_group_checkpoint(group), "checkpoint");
    double begin = spent();
    must(standfast_group_checkpoint(group), "checkpoint");
    double before = spent(), own, most;
    struct timespec late = {argc > 1 ? atoi(argv[1]) : 1, 0};
    if (rank == 0) nanosleep(&late, NULL);
    must(standfast_group_checkpoint(group), "checkpoint");
    /* Beyond what a checkpoint takes for which nobody is late. */
    own = rank == 0 ? 0 : (spent() - before) - (before - begin);
    MPI_Reduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    must(standfast_group_finish(group), "finish");
    if (rank == 0) printf("%.1f\n", most);
    MPI_Finalize();
    return 0;
}
