/* The programming interface of libckpt (Plank, Beck, Kingsley, Li: Libckpt: Transparent Checkpointing under Unix, 1995),
 * on top of libstandfast. A program that names its main function ckpt_target() and links with -lstandfast starts itself
 * under Standfast, with the options in its .ckptrc. `./prog =recover` continues it from its newest checkpoint.
 */
#ifndef STANDFAST_CKPT_H
#define STANDFAST_CKPT_H

#include "standfast.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CKPT_DEAD STANDFAST_DEAD
#define CKPT_READONLY STANDFAST_READONLY

/* exclude_bytes() and include_bytes() return 0 or a standfast_error. checkpoint_here() returns what
 * standfast_checkpoint_here() returns. */
int exclude_bytes(const void *address, long size, int usage);
int include_bytes(const void *address, long size);
int checkpoint_here(void);

#ifdef __cplusplus
}
#endif

#endif
