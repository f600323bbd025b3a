/*
 * standfast_group.h: checkpoints in the memory of other processes, for programs whose processes send each other messages.
 *
 * This library knows no MPI. Programs use standfast_mpi.h, which hands it a table of functions.
 *
 * All functions return 0 or more, or a negative number for an error that standfast_group_error() puts into words. Those
 * marked "collective" are called by all processes at once. One thread at a time.
 */
#ifndef STANDFAST_GROUP_H
#define STANDFAST_GROUP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STANDFAST_GROUP_VERSION 3
#define STANDFAST_REQUESTS 64        /* so many are tested at once, at most */
#define STANDFAST_ANYBODY UINT32_MAX /* instead of a sender */

/* Messages between two processes keep their order among those of one channel. What anybody may send goes on the first. */
enum standfast_channel { STANDFAST_MESSAGES = 0, STANDFAST_BODIES = 1 };

/* What has become of a request. */
enum standfast_how { STANDFAST_UNDER_WAY = 0, STANDFAST_DONE = 1, STANDFAST_CANCELLED = 2 };
typedef struct standfast_ended {
    int how;       /* enum standfast_how */
    uint32_t from; /* of a message that was received */
    size_t length; /* and its bytes */
} standfast_ended;

/* How messages are carried: filled in by standfast_mpi.h. Functions return 0, or not for an error. */
typedef struct standfast_transport {
    size_t size;      /* sizeof(standfast_transport) */
    uint32_t version; /* STANDFAST_GROUP_VERSION */
    uint32_t rank;
    uint32_t ranks;
    void *context; /* given to every function below */
    /* Begins to send; `bytes` stay as they are until `test` has said that `request` has ended. */
    int (*send)(void *context, uint32_t to, uint32_t channel, const void *bytes, size_t length, void **request);
    /* Begins to receive the next message of a process or of anybody, of at most `length` bytes; they are there when `test` has
     * said that `request` is done. */
    int (*receive)(void *context, uint32_t from, uint32_t channel, void *bytes, size_t length, void **request);
    /* Gives up receiving; whether that was in time `test` says soon. */
    int (*cancel)(void *context, void *request);
    /* Says for each of so many requests what has become of it, and leaves `ended` for those under way; the others are gone.
     * Once for all, since each look has its price. */
    int (*test)(void *context, size_t count, void *const *requests, standfast_ended *ended);
    /* Collective, or NULL. 1 where no message of the program is under way; 0 where one is, with words that are the same
     * everywhere; negative for an error, with words where there are any. */
    int (*quiescent)(void *context, char *words, size_t length);
} standfast_transport;

/* Codes: how many lost nodes are tolerated, and at what price. */
enum standfast_code {
    STANDFAST_PARITY = 0,      /* one in each group; the cheapest */
    STANDFAST_REED_SOLOMON = 1 /* `checks` in each group */
};

/* Zeros mean what the environment says, as `standfast group run` sets it, and else the default. */
typedef struct standfast_group_options {
    size_t size;          /* sizeof(standfast_group_options) */
    const char *job;      /* names the job: the same when it is launched again, and never another one's */
    const char *memory;   /* a memory file system; "/dev/shm" */
    int code;             /* enum standfast_code */
    uint32_t checks;      /* of Reed-Solomon; 2 */
    uint32_t group;       /* most members of a group; 8 */
    int compare;          /* not 0: find changes by comparison and not by the kernel's write tracking */
    const char *directory;    /* one that all nodes see, for when more is lost than the code bears; NULL for memory alone */
    uint32_t directory_every; /* every how many epochs one is copied there in the background; 0 for none */
    uint32_t encode_every;    /* every how many epochs one is encoded across the nodes; those between are local, are kept by
                               * each node for itself and survive processes but no node; 1 */
    double hang;              /* seconds without a call of this library, or without a message within one, after which the
                               * process ends itself with status 70; 0 for never */
    const char *milestones;   /* a file in which process 0 tells who has launched the job that all have joined, and that all
                               * have left, and each process what went wrong; NULL for none */
} standfast_group_options;

/* How a process begins. */
enum standfast_joined {
    STANDFAST_NEW = 0,        /* the job begins */
    STANDFAST_SURVIVOR = 1,   /* it goes back, and this process found what it had kept */
    STANDFAST_REPLACEMENT = 2 /* it goes back, and what this process had kept was lost and has been rebuilt */
};

typedef struct standfast_group standfast_group;

/* Collective. Joins, and rebuilds what was lost; returns an enum standfast_joined. */
int standfast_group_join(const standfast_transport *transport, const standfast_group_options *options,
                         standfast_group **group);

/* The number of the epoch that the job goes back to, or that was committed last; 0 where there is none. */
uint64_t standfast_group_epoch(const standfast_group *group);

/* Registers `count` elements of `element` bytes each under a number of 0 or more; again under the same number when the
 * memory has moved or its length has changed. It must stay mapped until it is unregistered or the group is left. */
int standfast_group_protect(standfast_group *group, int64_t id, void *memory, size_t count, size_t element);

/* The same for state that lies nowhere in one piece: `size` says how many bytes it takes now, `pack` writes them before each
 * checkpoint, `unpack` reads them in standfast_group_restore(). 0, or not for an error. The context is given to all three. */
typedef size_t (*standfast_size)(void *context);
typedef int (*standfast_pack)(void *context, void *into, size_t bytes);
typedef int (*standfast_unpack)(void *context, const void *from, size_t bytes);
int standfast_group_protect_packed(standfast_group *group, int64_t id, standfast_size size, standfast_pack pack,
                                   standfast_unpack unpack, void *context);

/* Leaves those pages of a region out of the next checkpoints that lie wholly within `bytes` bytes from `offset` on, or takes
 * them in again. What they hold after a restore is not defined. Registering the region at another place or with another
 * length takes all of it in. */
int standfast_group_exclude(standfast_group *group, int64_t id, size_t offset, size_t bytes);
int standfast_group_include(standfast_group *group, int64_t id, size_t offset, size_t bytes);

/* Forgets it. */
int standfast_group_unprotect(standfast_group *group, int64_t id);

/* The length in bytes that a number has in the epoch that is gone back to and that has not been restored; negative where
 * it has none. */
int64_t standfast_group_recorded(const standfast_group *group, int64_t id);

/* Collective. Fills the registered memory with what the epoch holds. Where a process has not registered all of it, nobody's
 * memory is touched. Where it fails otherwise the memory may hold anything. It fails in all processes or in none: end the
 * program then; launched again, it goes back once more. */
int standfast_group_restore(standfast_group *group);

/* Collective, with no message of the program under way. 0: the checkpoint counts. 1: it was given up, and the one before
 * counts, for the reason that standfast_group_error() gives; the program goes on. */
int standfast_group_checkpoint(standfast_group *group);

/* The seconds between checkpoints that `standfast group run --interval` says, or 60; negative for an error. */
double standfast_group_interval(void);

/* Collective. 1 where so many seconds have passed since the last checkpoint, by the clock of process 0; 0 where not. */
int standfast_group_due(standfast_group *group, double seconds);

/* Collective. The program is done: nothing of the job remains in memory, and the group is gone. A program that ends without it
 * counts as struck: `standfast group run` launches it again. */
int standfast_group_finish(standfast_group *group);

/* What is not as one would wish, a line each, and "" where all is well: what the loss of one node would be too much for,
 * that the job goes back to the directory since more was lost than the code bears, that a copy to it failed. It stays until the
 * next call with this group. */
const char *standfast_group_warnings(standfast_group *group);

/* What the last error of this thread was, in words. */
const char *standfast_group_error(void);

#ifdef __cplusplus
}
#endif
#endif
