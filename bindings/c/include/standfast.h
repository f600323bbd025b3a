/* libstandfast: lets a program direct its own checkpoints.
 *
 * All calls are advice. In a program that does not run under `standfast run`, every call is a nearly free no-op. A program
 * that makes no call at all is checkpointed all the same. All functions may be called from any thread, from signal
 * handlers and after fork(2). No function changes errno.
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
    /* The program writes the region again before it reads it. Later checkpoints leave the region out, and after a restart
     * it may hold anything. */
    STANDFAST_DEAD = 1,
    /* The program does not write to the region. The next checkpoint contains it, and later ones refer to it. */
    STANDFAST_READONLY = 2
};

/* The outcome of standfast_checkpoint_here(). */
enum standfast_return {
    /* No checkpoint was taken: none is due, or the program does not run under Standfast. */
    STANDFAST_NOT_TAKEN = 0,
    /* First return: the checkpoint has been taken, and the program continues. */
    STANDFAST_TAKEN = 1,
    /* Second return: the program has been restarted from that checkpoint. */
    STANDFAST_RESTARTED = 2
};

/* Errors. Every function that returns an int returns one of these when it fails. */
enum standfast_error {
    /* A null pointer, or a value that is no standfast_usage. */
    STANDFAST_ERROR_ARGUMENT = -1,
    /* The region ends beyond the address space. A negative length also gives this error. */
    STANDFAST_ERROR_RANGE = -2,
    /* Part of the region is not mapped. This is not checked if the program does not run under Standfast. */
    STANDFAST_ERROR_UNMAPPED = -3,
    /* There is no memory for the table of regions, or there are too many regions. */
    STANDFAST_ERROR_MEMORY = -4,
    /* The calling signal handler has interrupted a call of this library, and too many of the handler's regions already
     * wait for the end of that call. Call again outside the handler. */
    STANDFAST_ERROR_BUSY = -5,
    /* The program is not protected at present: its supervisor has died. */
    STANDFAST_ERROR_UNPROTECTED = -6,
    /* The checkpoint could not be taken. The supervisor has reported the reason to the user. */
    STANDFAST_ERROR_FAILED = -7,
    /* Checkpoints are disabled by standfast_disable(), or standfast_enable() was called once too often. */
    STANDFAST_ERROR_DISABLED = -8
};

/* Leaves exactly these bytes out of checkpoints until they are included again. Regions may overlap, nest and begin
 * anywhere; for each byte, the last call counts. Include memory again before you give it back (free, munmap); otherwise
 * checkpoints also leave out whatever occupies that address next. Memory that is shared between processes stays in
 * checkpoints. Returns 0 or an error. */
int standfast_exclude(const void *address, size_t length, int usage);

/* Takes bytes back into checkpoints, from the next one on. Calls need not match those of standfast_exclude().
 * Returns 0 or an error. */
int standfast_include(const void *address, size_t length);

/* Takes a checkpoint here if the shortest interval between two checkpoints (`--min-interval`) has passed. Returns a
 * standfast_return or an error. If there is a checkpoint and `generation` is not null, stores the checkpoint's number
 * there. At the first return the checkpoint has been taken, but its write to disk may still be under way. If that write
 * fails, the supervisor reports it. */
int standfast_checkpoint_here(uint64_t *generation);

/* standfast_disable() prevents checkpoints until standfast_enable() has been called as often. Use it for short sections:
 * the supervisor waits, and warns the user if the wait becomes long.
 * standfast_disable() returns 0; standfast_enable() returns 0 or an error. */
int standfast_disable(void);
int standfast_enable(void);

/* Returns 1 if the program runs under Standfast, and 0 otherwise. */
int standfast_is_protected(void);

/* Returns the nanoseconds until the supervisor takes the next checkpoint by itself: 0 if it is about to take one, -1 if it
 * never does or if the program is not protected. */
int64_t standfast_next(void);

/* Returns the meaning of an error in English, never null. */
const char *standfast_error_text(int error);

#ifdef __cplusplus
}
#endif

#endif
