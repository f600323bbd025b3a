/* What the parallel programs in C share: ranks, a checksum and a verdict over all of them, and checkpoints in each other's
 * memory (standfast_program.h). Without -DSTANDFAST these do nothing and the programs need nothing of Standfast.
 *
 * Nothing depends on the order in which messages arrive: sums of numbers that must be rounded are gathered and added in one
 * order, which is that of the program without ranks.
 */
#ifndef PARALLEL_H
#define PARALLEL_H

#include <mpi.h>

#include "../example.h"

#ifdef STANDFAST
#include <standfast_program.h>
#else
#include "unprotected.h"
#endif

static int rank, ranks;

static inline void start(int *count, char ***words)
{
    MPI_Init(count, words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    standfast_start(MPI_COMM_WORLD);
}

/* Ends all ranks. */
static inline void give_up(const char *why)
{
    if (rank == 0)
        fprintf(stderr, "%s\n", why);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    exit(2);
}

/* The first of `count` things that belongs to a rank; they are dealt out in stretches. */
static inline size_t first_of(int of_rank, size_t count)
{
    return count * (size_t)of_rank / (size_t)ranks;
}

/* The verdict over the largest of what the ranks have found; told by one, honoured by all. */
static inline void check_all(const char *what, double found, double most)
{
    double largest, badness = found <= most ? 0 : 1;
    MPI_Allreduce(&found, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &badness, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        check(what, badness > 0 && largest <= most ? NAN : largest, most);
    else if (badness > 0)
        exit(1);
}

/* Goes on over the bytes of all ranks in turn; the result is that of the last one, and is the same everywhere. */
static inline uint64_t checksum_all(uint64_t hash, const void *address, size_t bytes)
{
    if (rank > 0)
        MPI_Recv(&hash, 1, MPI_UINT64_T, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    hash = checksum(hash, address, bytes);
    if (rank + 1 < ranks)
        MPI_Send(&hash, 1, MPI_UINT64_T, rank + 1, 0, MPI_COMM_WORLD);
    MPI_Bcast(&hash, 1, MPI_UINT64_T, ranks - 1, MPI_COMM_WORLD);
    return hash;
}

static inline void finish(uint64_t hash)
{
    standfast_finish();
    if (rank == 0)
        printf("checksum %016llx\n", (unsigned long long)hash);
    MPI_Finalize();
}

#endif
