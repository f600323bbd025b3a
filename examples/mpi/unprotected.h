/* The part of standfast_program.h that the parallel programs in C use, for those that are built without Standfast: it does
 * nothing. */
#ifndef UNPROTECTED_H
#define UNPROTECTED_H

#include <mpi.h>
#include <stddef.h>

static inline void standfast_start(MPI_Comm comm) { (void)comm; }
static inline void standfast_protect(int id, void *memory, size_t bytes) { (void)id, (void)memory, (void)bytes; }
static inline int standfast_restored(void) { return 0; }
static inline int standfast_due(void) { return 0; }
static inline void standfast_checkpoint(void) {}
static inline void standfast_finish(void) {}

#endif
