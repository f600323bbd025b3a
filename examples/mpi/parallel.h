/* What the parallel programs in C share: ranks, a checksum and a verdict over all of them, and checkpoints in each other's
 * memory. Without -DSTANDFAST these do nothing and the programs need nothing of Standfast.
 *
 * Nothing depends on the order in which messages arrive: sums of numbers that must be rounded are gathered and added in one
 * order, which is that of the program without ranks.
 */
#ifndef PARALLEL_H
#define PARALLEL_H

#include <mpi.h>

#include "../example.h"

static int rank, ranks;

#ifdef STANDFAST
#define STANDFAST_MPI_IMPLEMENTATION
#include <standfast_mpi.h>

static standfast_group *group;
static int joined;

/* Ends all ranks where a call has failed. */
static inline int must(int result)
{
    if (result >= 0)
        return result;
    fprintf(stderr, "%s\n", standfast_group_error());
    MPI_Abort(MPI_COMM_WORLD, 3);
    return result;
}

static inline void join(void)
{
    joined = must(standfast_mpi_join(MPI_COMM_WORLD, NULL, &group));
}

/* Registers memory, again when it has moved. */
static inline void protect(int id, void *address, size_t bytes)
{
    must(standfast_group_protect(group, id, address, bytes, 1));
}

/* Whether the ranks go on from a checkpoint, which the registered memory holds now. */
static inline int restored(void)
{
    return joined != STANDFAST_NEW && must(standfast_group_restore(group)) == 0;
}

/* Takes one every second, or as often as `standfast group run --interval` says. */
static inline int due(void)
{
    const char *seconds = getenv("STANDFAST_GROUP_INTERVAL");
    return must(standfast_group_due(group, seconds ? strtod(seconds, NULL) : 1));
}

static inline void checkpoint(void)
{
    must(standfast_group_checkpoint(group));
}

static inline void leave(void)
{
    must(standfast_group_finish(group));
}
#else
static inline void join(void) {}
static inline void protect(int id, void *address, size_t bytes) { (void)id, (void)address, (void)bytes; }
static inline int restored(void) { return 0; }
static inline int due(void) { return 0; }
static inline void checkpoint(void) {}
static inline void leave(void) {}
#endif

static inline void start(int *count, char ***words)
{
    MPI_Init(count, words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    join();
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

/* The verdict over the largest of what the ranks have found; told by one, heeded by all. */
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
    leave();
    if (rank == 0)
        printf("checksum %016llx\n", (unsigned long long)hash);
    MPI_Finalize();
}

#endif
