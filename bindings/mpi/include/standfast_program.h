/*
 * standfast_program.h: libstandfast_group in a few lines, for programs with one group that need not go on where a call fails: it
 * says why, and all processes end. Included by one source file. What else there is takes standfast_the_group; see
 * standfast_group.h.
 *
 *     standfast_start(MPI_COMM_WORLD);
 *     standfast_protect(0, &step, sizeof step);
 *     standfast_protect(1, field, bytes);
 *     standfast_restored();
 *     for (; step < last; step++) {
 *         if (standfast_due()) standfast_checkpoint();
 *         ...
 *     }
 *     standfast_finish();
 */
#ifndef STANDFAST_PROGRAM_H
#define STANDFAST_PROGRAM_H

#define STANDFAST_MPI_IMPLEMENTATION
#include "standfast_mpi.h"

/* What processes end with where a call fails: EX_SOFTWARE of sysexits.h. */
enum { STANDFAST_FAILED = 70 };

static standfast_group *standfast_the_group;
static int standfast_joined_as;

/* The result of a call, which is no error. */
static inline int standfast_checked(const char *call, int result) {
    if (result >= 0) return result;
    fprintf(stderr, "%s: %s\n", call, standfast_group_error());
    MPI_Abort(MPI_COMM_WORLD, STANDFAST_FAILED);
    return result;
}

/* Collective. Returns an enum standfast_joined. */
static inline int standfast_start(MPI_Comm comm) {
    standfast_joined_as = standfast_mpi_join(comm, NULL, &standfast_the_group);
    return standfast_checked("standfast_start", standfast_joined_as);
}

/* Registers so many bytes under a number, again when they have moved or there are more or fewer. */
static inline void standfast_protect(int64_t id, void *memory, size_t bytes) {
    standfast_checked("standfast_protect", standfast_group_protect(standfast_the_group, id, memory, bytes, 1));
}

/* Collective. Where the program goes back to an epoch, fills what is registered with what it holds; and whether it does. */
static inline int standfast_restored(void) {
    int goes_back = standfast_joined_as != STANDFAST_NEW;
    standfast_joined_as = STANDFAST_NEW;
    if (goes_back) standfast_checked("standfast_restored", standfast_group_restore(standfast_the_group));
    return goes_back;
}

/* Collective. Whether so many seconds have passed since the last checkpoint as `standfast group run --interval` says, or 60. */
static inline int standfast_due(void) {
    double seconds = standfast_group_interval();
    int due = seconds < 0 ? -1 : standfast_group_due(standfast_the_group, seconds);
    return standfast_checked("standfast_due", due);
}

/* Collective, with no message of the program under way. Whether it counts; where it was given up the one before does. */
static inline int standfast_checkpoint(void) {
    return standfast_checked("standfast_checkpoint", standfast_group_checkpoint(standfast_the_group)) == 0;
}

/* Collective. The program is done. */
static inline void standfast_finish(void) {
    standfast_checked("standfast_finish", standfast_group_finish(standfast_the_group));
}

#endif
