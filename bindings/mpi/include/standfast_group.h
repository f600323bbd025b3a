/*
 * standfast_group.h: checkpoints in the memory of other processes, for programs whose processes send each other messages.
 *
 * This library does not depend on MPI. Programs use standfast_mpi.h, which gives the library a table of functions.
 *
 * All functions return 0 or more on success, or a negative number for an error that standfast_group_error() describes. All
 * processes must call the functions marked "collective" together. Only one thread may call the library at a time.
 */
#ifndef STANDFAST_GROUP_H
#define STANDFAST_GROUP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STANDFAST_GROUP_VERSION 3
#define STANDFAST_REQUESTS 64        /* the most requests in one call of `test` */
#define STANDFAST_ANYBODY UINT32_MAX /* receives from any sender */

/* Messages between two processes keep their order within one channel. Messages that are received from any sender use the
 * first channel. */
enum standfast_channel { STANDFAST_MESSAGES = 0, STANDFAST_BODIES = 1 };

/* The state of a request. */
enum standfast_how { STANDFAST_UNDER_WAY = 0, STANDFAST_DONE = 1, STANDFAST_CANCELLED = 2 };
typedef struct standfast_ended {
    int how;       /* enum standfast_how */
    uint32_t from; /* sender of a received message */
    size_t length; /* its length in bytes */
} standfast_ended;

/* How messages are carried. standfast_mpi.h fills it in. Unless noted otherwise, functions return 0, or another number for
 * an error. */
typedef struct standfast_transport {
    size_t size;      /* sizeof(standfast_transport) */
    uint32_t version; /* STANDFAST_GROUP_VERSION */
    uint32_t rank;
    uint32_t ranks;
    void *context; /* passed to every function below */
    /* Begins to send. `bytes` must not change until `test` has reported that `request` has ended. */
    int (*send)(void *context, uint32_t to, uint32_t channel, const void *bytes, size_t length, void **request);
    /* Begins to receive the next message from one process or from any, of at most `length` bytes. The bytes are there when
     * `test` has reported that `request` is done. */
    int (*receive)(void *context, uint32_t from, uint32_t channel, void *bytes, size_t length, void **request);
    /* Cancels a receive. `test` soon reports whether that was in time. */
    int (*cancel)(void *context, void *request);
    /* Reports the state of each of `count` requests. For a request under way it leaves `ended` as it is; a request that
     * has ended is gone. One call tests all requests, since each test has a cost. */
    int (*test)(void *context, size_t count, void *const *requests, standfast_ended *ended);
    /* Collective, or NULL. Returns 1 if no message of the program is under way. Returns 0 if one is, with a text in
     * `words` that is the same in all processes. Returns a negative number for an error, with a text if there is one. */
    int (*quiescent)(void *context, char *words, size_t length);
} standfast_transport;

/* Codes: how many lost nodes a group tolerates, and at what price. */
enum standfast_code {
    STANDFAST_PARITY = 0,      /* one lost node in each group; the cheapest */
    STANDFAST_REED_SOLOMON = 1 /* `checks` lost nodes in each group */
};

/* A zero stands for the value in the environment, which `standfast group run` sets, or else for the default. Defaults
 * follow the semicolons. */
typedef struct standfast_group_options {
    size_t size;          /* sizeof(standfast_group_options) */
    const char *job;      /* the name of the job: the same for each launch of it, and different from that of any other job */
    const char *memory;   /* a memory file system; "/dev/shm" */
    int code;             /* enum standfast_code */
    uint32_t checks;      /* checks of Reed-Solomon; 2 */
    uint32_t group;       /* the most members of a group; 8 */
    int compare;          /* not 0: find changes by comparison instead of the kernel's write tracking */
    const char *directory;    /* a directory that all nodes see, for a loss that exceeds what the code tolerates; NULL for
                               * memory alone */
    uint32_t directory_every; /* N: copy every Nth epoch there in the background; 0 for none */
    uint32_t encode_every;    /* N: encode every Nth epoch across the nodes. The epochs between are local: each node
                               * keeps its own, which survives the loss of processes but not of the node; 1 */
    double hang;              /* seconds without a call of this library, or without a message within a call, after which the
                               * process ends itself with status 70; 0 for never */
    const char *milestones;   /* a file for the launcher of the job. Process 0 writes there that all have joined and that all
                               * have left, and each process writes what went wrong; NULL for none */
} standfast_group_options;

/* How a process joins the job. */
enum standfast_joined {
    STANDFAST_NEW = 0,        /* the job begins */
    STANDFAST_SURVIVOR = 1,   /* the job goes back to an epoch, and this process found the data it had kept */
    STANDFAST_REPLACEMENT = 2 /* the job goes back to an epoch, and this process's data were lost and rebuilt */
};

typedef struct standfast_group standfast_group;

/* Collective. Joins the job and rebuilds what was lost. Returns an enum standfast_joined. */
int standfast_group_join(const standfast_transport *transport, const standfast_group_options *options,
                         standfast_group **group);

/* Returns the number of the epoch that the job goes back to or committed last, or 0 if there is none. */
uint64_t standfast_group_epoch(const standfast_group *group);

/* Registers `count` elements of `element` bytes each under a number of 0 or more. Register the memory again under the same
 * number when it has moved or its length has changed. It must stay mapped until you unregister it or leave the group. */
int standfast_group_protect(standfast_group *group, int64_t id, void *memory, size_t count, size_t element);

/* Registers state that is not one contiguous piece of memory. `size` returns how many bytes the state takes now, `pack`
 * writes them before each checkpoint, and `unpack` reads them in standfast_group_restore(). `pack` and `unpack` return 0,
 * or another number for an error. All three get the context. */
typedef size_t (*standfast_size)(void *context);
typedef int (*standfast_pack)(void *context, void *into, size_t bytes);
typedef int (*standfast_unpack)(void *context, const void *from, size_t bytes);
int standfast_group_protect_packed(standfast_group *group, int64_t id, standfast_size size, standfast_pack pack,
                                   standfast_unpack unpack, void *context);

/* Exclude or include again the pages of a region that lie wholly within the `bytes` bytes from `offset` on. Later
 * checkpoints leave excluded pages out, and their contents after a restore are undefined. Registering the region at
 * another address or with another length includes all of it again. */
int standfast_group_exclude(standfast_group *group, int64_t id, size_t offset, size_t bytes);
int standfast_group_include(standfast_group *group, int64_t id, size_t offset, size_t bytes);

/* Unregisters a region. */
int standfast_group_unprotect(standfast_group *group, int64_t id);

/* Returns the length in bytes of a number's region in the epoch that the job goes back to, as long as it has not been
 * restored; negative if the number has none. */
int64_t standfast_group_recorded(const standfast_group *group, int64_t id);

/* Collective. Fills the registered memory from the epoch. If a process has not registered all that the epoch holds, the
 * call fails and changes no process's memory. After any other failure the memory may hold anything. The call fails in all
 * processes or in none. End the program if it fails; the next launch goes back to the epoch once more. */
int standfast_group_restore(standfast_group *group);

/* Collective, and no message of the program may be under way. Returns 0 if the checkpoint counts. Returns 1 if the
 * checkpoint was abandoned: the one before still counts, standfast_group_error() gives the reason, and the program
 * continues. */
int standfast_group_checkpoint(standfast_group *group);

/* Returns the seconds between checkpoints that `standfast group run --interval` sets, or 60; negative for an error. */
double standfast_group_interval(void);

/* Collective. Returns 1 if `seconds` seconds have passed since the last checkpoint by the clock of process 0, and 0
 * otherwise. */
int standfast_group_due(standfast_group *group, double seconds);

/* Collective. Ends the job: frees the group and removes all of the job's data from memory. A program that ends without
 * this call counts as failed, and `standfast group run` launches it again. */
int standfast_group_finish(standfast_group *group);

/* Returns warnings, one a line, or "" if there are none. They report what would not survive the loss of one node, that the
 * job goes back to the directory since more was lost than the code tolerates, or that a copy to the directory failed. The
 * text stays valid until the next call with this group. */
const char *standfast_group_warnings(standfast_group *group);

/* Returns a description of this thread's last error. */
const char *standfast_group_error(void);

#ifdef __cplusplus
}
#endif
#endif
