/* Registers more than its memory file system takes: the checkpoint is given up, and the program goes on. With less the next
 * one counts. Process 0 prints a line for each, and how the large region has fared. Usage: room MEBIBYTES */
#include <stdio.h>
#include <stdlib.h>

#define STANDFAST_MPI_IMPLEMENTATION
#include <standfast_mpi.h>

#include "must.h"

static standfast_group *group;
static int rank;

static void checkpoint(const char *when) {
    int given_up = must(standfast_group_checkpoint(group), "checkpoint");
    if (rank == 0) printf("%s: %s\n", when, given_up ? standfast_group_error() : "counts");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_t count = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) << 20, at;
    unsigned char *large = malloc(count);
    int step = 1;
    for (at = 0; at < count; at++) large[at] = (unsigned char)(at / 4096 + at + 1);
    must(standfast_mpi_join(MPI_COMM_WORLD, NULL, &group), "join");
    must(standfast_group_protect(group, 0, &step, 1, sizeof step), "protect");
    checkpoint("little");
    must(standfast_group_protect(group, 1, large, count, 1), "protect");
    checkpoint("much");
    must(standfast_group_unprotect(group, 1), "unprotect");
    step = 2;
    checkpoint("little again");
    for (at = 0; at < count && large[at] == (unsigned char)(at / 4096 + at + 1); at++) continue;
    if (rank == 0) printf("%s\n", at == count ? "as it was" : "not as it was");
    must(standfast_group_finish(group), "finish");
    MPI_Finalize();
    return 0;
}
