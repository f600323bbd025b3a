/*
 * standfast_mpi.h: libstandfast_group for MPI programs. It works with any MPI, since the program's own mpicc compiles it.
 *
 * In exactly one source file of the program:
 *
 *     #define STANDFAST_MPI_IMPLEMENTATION
 *     #include <standfast_mpi.h>
 *
 * and everywhere else without the first line. All messages go through a duplicate of the given communicator;
 * MPI_COMM_WORLD is left alone.
 */
#ifndef STANDFAST_MPI_H
#define STANDFAST_MPI_H

#include <mpi.h>

#include "standfast_group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over `comm`, whose size must be that of the job. `options` may be NULL. Options that are not set come from
 * the environment, which `standfast group run` sets:
 *
 *     $STANDFAST_GROUP_JOB              the job's name, read by process 0
 *     $STANDFAST_GROUP_MEMORY           the memory file system; /dev/shm
 *     $STANDFAST_GROUP_DIRECTORY        the directory
 *     $STANDFAST_GROUP_DIRECTORY_EVERY  N: copy every Nth epoch there
 *     $STANDFAST_GROUP_ENCODE_EVERY     N: encode every Nth epoch
 *     $STANDFAST_GROUP_CHECKS           the number of checks: 2 or more mean Reed-Solomon
 *     $STANDFAST_GROUP_HANG             after how many seconds a process that hangs ends itself
 *     $STANDFAST_GROUP_MILESTONES       where process 0 reports the launch's progress to `standfast group run`
 *     $STANDFAST_GROUP_CHECK_QUIESCENT  read by process 0: abandon checkpoints if messages are under way
 *                                       (standfast_mpi_count.h)
 *
 * Returns an enum standfast_joined, or a negative number. Process 0 writes warnings to standard error. */
int standfast_mpi_join(MPI_Comm comm, const standfast_group_options *options, standfast_group **group);

#ifdef __cplusplus
}
#endif

#ifdef STANDFAST_MPI_IMPLEMENTATION

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef STANDFAST_MPI_COUNT
#include "standfast_mpi_count.h"
#endif

#define STANDFAST_MPI_TAG 1995 /* tag of the first channel */
#define STANDFAST_MPI_NAME 256

typedef struct standfast_mpi_request {
    MPI_Request request;
    int receives;
} standfast_mpi_request;

static int standfast_mpi_begun(int result, standfast_mpi_request *begun, void **request) {
    if (result != MPI_SUCCESS) {
        free(begun);
        return -1;
    }
    *request = begun;
    return 0;
}

static int standfast_mpi_send(void *context, uint32_t to, uint32_t channel, const void *bytes, size_t length, void **request) {
    standfast_mpi_request *sent = (standfast_mpi_request *)malloc(sizeof *sent);
    if (sent == NULL || length > 0x7fffffff) {
        free(sent);
        return -1;
    }
    sent->receives = 0;
    return standfast_mpi_begun(PMPI_Isend(bytes, (int)length, MPI_BYTE, (int)to, STANDFAST_MPI_TAG + (int)channel,
                                          *(MPI_Comm *)context, &sent->request), sent, request);
}

static int standfast_mpi_receive(void *context, uint32_t from, uint32_t channel, void *bytes, size_t length, void **request) {
    standfast_mpi_request *asked = (standfast_mpi_request *)malloc(sizeof *asked);
    int who = from == STANDFAST_ANYBODY ? MPI_ANY_SOURCE : (int)from;
    if (asked == NULL || length > 0x7fffffff) {
        free(asked);
        return -1;
    }
    asked->receives = 1;
    return standfast_mpi_begun(PMPI_Irecv(bytes, (int)length, MPI_BYTE, who, STANDFAST_MPI_TAG + (int)channel,
                                          *(MPI_Comm *)context, &asked->request), asked, request);
}

static int standfast_mpi_cancel(void *context, void *request) {
    (void)context;
    return PMPI_Cancel(&((standfast_mpi_request *)request)->request) == MPI_SUCCESS ? 0 : -1;
}

static int standfast_mpi_received(MPI_Status *status, standfast_ended *ended) {
    int is_cancelled = 0, count = 0;
    if (PMPI_Test_cancelled(status, &is_cancelled) != MPI_SUCCESS) return -1;
    if (is_cancelled) {
        ended->how = STANDFAST_CANCELLED;
        return 0;
    }
    if (PMPI_Get_count(status, MPI_BYTE, &count) != MPI_SUCCESS) return -1;
    ended->from = (uint32_t)status->MPI_SOURCE;
    ended->length = (size_t)count;
    return 0;
}

static int standfast_mpi_test(void *context, size_t count, void *const *requests, standfast_ended *ended) {
    MPI_Request tested[STANDFAST_REQUESTS];
    MPI_Status statuses[STANDFAST_REQUESTS];
    int which[STANDFAST_REQUESTS], many = 0, at;
    (void)context;
    if (count > STANDFAST_REQUESTS) return -1;
    for (at = 0; at < (int)count; at++) tested[at] = ((standfast_mpi_request *)requests[at])->request;
    if (PMPI_Testsome((int)count, tested, &many, which, statuses) != MPI_SUCCESS) return -1;
    for (at = 0; at < many; at++) {
        standfast_mpi_request *request = (standfast_mpi_request *)requests[which[at]];
        ended[which[at]].how = STANDFAST_DONE;
        if (request->receives && standfast_mpi_received(&statuses[at], &ended[which[at]]) != 0) return -1;
        free(request);
    }
    return 0;
}

static int standfast_mpi_transport(MPI_Comm comm, standfast_transport *transport) {
    /* Never freed: a process that leaves the group may still have messages under way. */
    MPI_Comm *own = (MPI_Comm *)malloc(sizeof *own);
    int rank, ranks;
    if (own == NULL || PMPI_Comm_dup(comm, own) != MPI_SUCCESS) return -1;
    MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN);
    MPI_Comm_rank(*own, &rank);
    MPI_Comm_size(*own, &ranks);
    memset(transport, 0, sizeof *transport);
    transport->size = sizeof *transport;
    transport->version = STANDFAST_GROUP_VERSION;
    transport->rank = (uint32_t)rank;
    transport->ranks = (uint32_t)ranks;
    transport->context = own;
    transport->send = standfast_mpi_send;
    transport->receive = standfast_mpi_receive;
    transport->cancel = standfast_mpi_cancel;
    transport->test = standfast_mpi_test;
    return 0;
}

#ifndef STANDFAST_MPI_COUNT
/* For a program that does not count its messages. */
static int standfast_mpi_quiescent(void *context, char *words, size_t length) {
    (void)context;
    snprintf(words, length, "--check-quiescent counts messages: compile the program with -DSTANDFAST_MPI_COUNT");
    return -1;
}
#endif

int standfast_mpi_join(MPI_Comm comm, const standfast_group_options *options, standfast_group **group) {
    standfast_transport transport;
    standfast_group_options chosen;
    char name[STANDFAST_MPI_NAME] = "";
    int joined, checked = getenv("STANDFAST_GROUP_CHECK_QUIESCENT") != NULL;
    if (standfast_mpi_transport(comm, &transport) != 0) return -1;
    memset(&chosen, 0, sizeof chosen);
    chosen.size = sizeof chosen;
    if (options != NULL) chosen = *options;
    if (transport.rank == 0) {
        const char *job = chosen.job != NULL ? chosen.job : getenv("STANDFAST_GROUP_JOB");
        if (job != NULL) strncpy(name, job, sizeof name - 1);
    }
    if (PMPI_Bcast(name, (int)sizeof name, MPI_CHAR, 0, *(MPI_Comm *)transport.context) != MPI_SUCCESS) return -1;
    if (PMPI_Bcast(&checked, 1, MPI_INT, 0, *(MPI_Comm *)transport.context) != MPI_SUCCESS) return -1;
    if (checked) transport.quiescent = standfast_mpi_quiescent;
    chosen.job = name;
    joined = standfast_group_join(&transport, &chosen, group);
    if (joined >= 0 && transport.rank == 0) fputs(standfast_group_warnings(*group), stderr);
    return joined;
}

#endif /* STANDFAST_MPI_IMPLEMENTATION */
#endif
