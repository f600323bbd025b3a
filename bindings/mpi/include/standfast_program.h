/*
 * standfast_program.h: a short form of libstandfast_group, for programs with one group that need not continue after an
 * error. A call that fails prints the reason and ends all processes. Include this header in one source file. For all other
 * calls, pass standfast_the_group to the functions of standfast_group.h.
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

/* The exit status of the processes after a call has failed: EX_SOFTWARE of sysexits.h. */
enum { STANDFAST_FAILED = 70 };

static standfast_group *standfast_the_group;
static int standfast_joined_as;

/* Returns the result of a call if it is no error; otherwise prints the error and ends all processes. */
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

/* Registers `bytes` bytes under a number. Call it again when the memory has moved or its length has changed. */
static inline void standfast_protect(int64_t id, void *memory, size_t bytes) {
    standfast_checked("standfast_protect", standfast_group_protect(standfast_the_group, id, memory, bytes, 1));
}

/* Collective. If the program goes back to an epoch, fills the registered memory from it. Returns whether it goes back. */
static inline int standfast_restored(void) {
    int goes_back = standfast_joined_as != STANDFAST_NEW;
    standfast_joined_as = STANDFAST_NEW;
    if (goes_back) standfast_checked("standfast_restored", standfast_group_restore(standfast_the_group));
    return goes_back;
}

/* Collective. Reports whether the seconds of `standfast group run --interval`, or 60, have passed since the last
 * checkpoint. */
static inline int standfast_due(void) {
    double seconds = standfast_group_interval();
    int due = seconds < 0 ? -1 : standfast_group_due(standfast_the_group, seconds);
    return standfast_checked("standfast_due", due);
}

/* Collective, and no message of the program may be under way. Reports whether the checkpoint counts. If it was abandoned,
 * the one before still counts. */
static inline int standfast_checkpoint(void) {
    return standfast_checked("standfast_checkpoint", standfast_group_checkpoint(standfast_the_group)) == 0;
}

/* Collective. Ends the job; the program is done. */
static inline void standfast_finish(void) {
    standfast_checked("standfast_finish", standfast_group_finish(standfast_the_group));
}

#endif
