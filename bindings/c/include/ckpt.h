/* The programming interface of libckpt (Plank, Beck, Kingsley, Li: Libckpt: Transparent Checkpointing under Unix, 1995),
 * on top of libstandfast. A program that calls its main function ckpt_target() is linked with -lstandfast and puts itself
 * under Standfast as its .ckptrc says; `./prog =recover` continues it from its newest checkpoint.
 */
#ifndef STANDFAST_CKPT_H
#define STANDFAST_CKPT_H

#include "standfast.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CKPT_DEAD STANDFAST_DEAD
#define CKPT_READONLY STANDFAST_READONLY

/* Each returns 0 or a standfast_error; checkpoint_here() what standfast_checkpoint_here() does. */
int exclude_bytes(const void *address, long size, int usage);
int include_bytes(const void *address, long size);
int checkpoint_here(void);

#ifdef __cplusplus
}
#endif

#endif
