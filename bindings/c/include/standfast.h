/* libstandfast: a program directs its own checkpoints.
 *
 * All of it is advice. A program that does not run under `standfast run` finds every call a nearly free no-op, and one that
 * makes no call at all is checkpointed all the same. All functions may be called from any thread, from signal handlers and
 * behind fork(2); none of them changes errno.
 */
#ifndef STANDFAST_H
#define STANDFAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STANDFAST_VERSION 1

/* What the program promises about a region. */
enum standfast_usage {
    /* Nobody reads it before it has been written again: it is in no further checkpoint, and may hold anything after a
     * restart. */
    STANDFAST_DEAD = 1,
    /* Nobody writes to it: it is in the next checkpoint, and later ones refer to that. */
    STANDFAST_READONLY = 2
};

/* What has become of standfast_checkpoint_here(). */
enum standfast_return {
    /* Nothing: no checkpoint is due, or the program does not run under Standfast. */
    STANDFAST_NOT_TAKEN = 0,
    /* First return: the program goes on, and the checkpoint has been taken. */
    STANDFAST_TAKEN = 1,
    /* Second return: the program has been restarted from that checkpoint. */
    STANDFAST_RESTARTED = 2
};

/* What can be wrong. All functions that return an int return one of these where something is. */
enum standfast_error {
    /* A null pointer, or a usage that is none. */
    STANDFAST_ERROR_ARGUMENT = -1,
    /* The region ends beyond the address space: a negative length among others. */
    STANDFAST_ERROR_RANGE = -2,
    /* Not all of the region is mapped. Outside Standfast that is not looked at. */
    STANDFAST_ERROR_UNMAPPED = -3,
    /* There is no memory for the table of regions, or there are too many of them. */
    STANDFAST_ERROR_MEMORY = -4,
    /* The calling signal handler has interrupted a call of this library, and too many of its regions wait for the end of
     * that; call again outside the handler. */
    STANDFAST_ERROR_BUSY = -5,
    /* Nobody protects the program at present: its supervisor has died. */
    STANDFAST_ERROR_UNPROTECTED = -6,
    /* The checkpoint could not be taken; the supervisor has told the user why. */
    STANDFAST_ERROR_FAILED = -7,
    /* Checkpoints are disabled by standfast_disable(), or standfast_enable() was called once too often. */
    STANDFAST_ERROR_DISABLED = -8
};

/* Leaves bytes out of checkpoints, exactly these and as long as they are not included again. Regions may overlap, nest and
 * begin anywhere; what was said last counts. Memory that is given back (free, munmap) must be included before: what comes to
 * lie there next would be left out as well. Regions of memory that is shared between processes are left in. Returns 0. */
int standfast_exclude(const void *address, size_t length, int usage);

/* Takes bytes back into checkpoints, from the next one on. Calls need not match those of standfast_exclude(). Returns 0. */
int standfast_include(const void *address, size_t length);

/* Takes a checkpoint here, where the shortest interval between two has passed (`--min-interval`). Returns a
 * standfast_return or an error. Where there is a checkpoint and `generation` is not null, it gets its number. At the first
 * return it has been taken and is on its way to the disk; the supervisor tells when it does not get there. */
int standfast_checkpoint_here(uint64_t *generation);

/* No checkpoint is taken until standfast_enable() has been called as often. For short stretches: the supervisor waits, and
 * tells the user when that becomes long. Returns 0. */
int standfast_disable(void);
int standfast_enable(void);

/* Whether the program runs under Standfast: 1 or 0. */
int standfast_is_protected(void);

/* Nanoseconds until the supervisor takes the next checkpoint by itself; 0 if it is about to, -1 if it never does or nobody
 * protects the program. */
int64_t standfast_next(void);

/* What an error means, in English; never null. */
const char *standfast_error_text(int error);

#ifdef __cplusplus
}
#endif

#endif
