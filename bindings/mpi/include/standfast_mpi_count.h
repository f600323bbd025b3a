/*
 * standfast_mpi_count.h: counts the messages of an MPI program, so that a checkpoint can report which were sent and not
 * yet received. standfast_mpi.h includes it if STANDFAST_MPI_COUNT is defined as well as STANDFAST_MPI_IMPLEMENTATION:
 *
 *     mpicc -DSTANDFAST_MPI_COUNT ...
 *
 * The header replaces MPI's functions by ones that count and call their PMPI_ twins. A message counts as sent when its
 * send begins, and as received when its receive is done. It does not count what bypasses these functions: collective and
 * one-sided operations, partitioned messages, and calls from Fortran, which has functions of its own.
 */
#ifndef STANDFAST_MPI_COUNT_H
#define STANDFAST_MPI_COUNT_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A receive that is under way, or a persistent request. */
typedef struct standfast_counted {
    MPI_Request request;
    MPI_Comm comm;
    int to; /* receiver of a persistent send; -1 for a receive */
    int persistent, active;
} standfast_counted;

/* A message that is matched but not yet received. */
typedef struct standfast_matched {
    MPI_Message message;
    MPI_Comm comm;
} standfast_matched;

static struct {
    char lock;
    int ranks;
    unsigned long long *sent, *received; /* for each rank of MPI_COMM_WORLD */
    standfast_counted *requests;
    size_t count, room;
    standfast_matched *matched;
    size_t matched_count, matched_room;
} standfast_counts;

/* Several threads may send at the same time. */
static void standfast_count_lock(void) {
    while (__atomic_test_and_set(&standfast_counts.lock, __ATOMIC_ACQUIRE)) continue;
}

static void standfast_count_unlock(void) {
    __atomic_clear(&standfast_counts.lock, __ATOMIC_RELEASE);
}

static void *standfast_count_room(void *array, size_t count, size_t *room, size_t size) {
    void *grown = array;
    if (count < *room) return array;
    *room = *room ? 2 * *room : 64;
    grown = realloc(array, *room * size);
    if (grown == NULL) {
        fputs("standfast: there is no memory to count messages\n", stderr);
        PMPI_Abort(MPI_COMM_WORLD, 70);
    }
    return grown;
}

/* Returns the rank in MPI_COMM_WORLD; negative if there is none, as for MPI_PROC_NULL. */
static int standfast_count_world(MPI_Comm comm, int rank) {
    MPI_Group group, world;
    int inter = 0, found = MPI_UNDEFINED;
    if (rank < 0) return -1;
    if (comm == MPI_COMM_WORLD) return rank;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter) PMPI_Comm_remote_group(comm, &group);
    else PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, 1, &rank, world, &found);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    return found == MPI_UNDEFINED ? -1 : found;
}

static void standfast_count_one(int received, MPI_Comm comm, int rank) {
    int other = standfast_count_world(comm, rank);
    if (other < 0) return;
    standfast_count_lock();
    if (standfast_counts.sent == NULL) {
        PMPI_Comm_size(MPI_COMM_WORLD, &standfast_counts.ranks);
        standfast_counts.sent = (unsigned long long *)calloc(2 * (size_t)standfast_counts.ranks, sizeof(unsigned long long));
        if (standfast_counts.sent == NULL) PMPI_Abort(MPI_COMM_WORLD, 70);
        standfast_counts.received = standfast_counts.sent + standfast_counts.ranks;
    }
    (received ? standfast_counts.received : standfast_counts.sent)[other]++;
    standfast_count_unlock();
}

static void standfast_count_sent(MPI_Comm comm, int to) {
    standfast_count_one(0, comm, to);
}

static void standfast_count_received(MPI_Comm comm, const MPI_Status *status) {
    int cancelled = 0;
    PMPI_Test_cancelled(status, &cancelled);
    if (!cancelled) standfast_count_one(1, comm, status->MPI_SOURCE);
}

static void standfast_count_request(MPI_Request request, MPI_Comm comm, int to, int persistent) {
    standfast_counted made;
    made.request = request;
    made.comm = comm;
    made.to = to;
    made.persistent = persistent;
    made.active = !persistent;
    standfast_count_lock();
    standfast_counts.requests = (standfast_counted *)standfast_count_room(
        standfast_counts.requests, standfast_counts.count, &standfast_counts.room, sizeof made);
    standfast_counts.requests[standfast_counts.count++] = made;
    standfast_count_unlock();
}

/* Takes a request that has ended or is given up out of the list. A persistent request leaves the list only when it is
 * given up. */
static int standfast_count_take(MPI_Request request, int given_up, standfast_counted *taken) {
    size_t at;
    int found = 0;
    standfast_count_lock();
    for (at = 0; at < standfast_counts.count && !found; at++) {
        standfast_counted *it = &standfast_counts.requests[at];
        if (it->request != request) continue;
        found = 1;
        *taken = *it;
        it->active = 0;
        if (given_up || !it->persistent) *it = standfast_counts.requests[--standfast_counts.count];
    }
    standfast_count_unlock();
    return found;
}

static void standfast_count_done(MPI_Request request, const MPI_Status *status) {
    standfast_counted taken;
    if (request == MPI_REQUEST_NULL || !standfast_count_take(request, 0, &taken)) return;
    if (taken.active && taken.to < 0) standfast_count_received(taken.comm, status);
}

static void standfast_count_started(MPI_Request request) {
    MPI_Comm comm = MPI_COMM_NULL;
    size_t at;
    int to = -1;
    standfast_count_lock();
    for (at = 0; at < standfast_counts.count; at++) {
        standfast_counted *it = &standfast_counts.requests[at];
        if (it->request != request) continue;
        it->active = 1;
        comm = it->comm;
        to = it->to;
    }
    standfast_count_unlock();
    if (to >= 0) standfast_count_sent(comm, to);
}

/* Returns the number of messages that were counted to or from a process of this communicator. */
static unsigned long long standfast_counted_with(const unsigned long long *counts, MPI_Comm comm, int rank) {
    int other = standfast_count_world(comm, rank);
    return counts == NULL || other < 0 ? 0 : counts[other];
}

/* Collective over the processes of the job. Returns 1 if every message that was sent has been received and no receive is
 * under way. Otherwise returns 0, with a text that is the same in all processes. */
static int standfast_mpi_quiescent(void *context, char *words, size_t length) {
    MPI_Comm comm = *(MPI_Comm *)context;
    int rank, ranks, other, first, told;
    unsigned long long unmatched = 0, all = 0, *to, *from;
    char text[256] = "";
    size_t at, under_way = 0;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    to = (unsigned long long *)calloc(2 * (size_t)ranks, sizeof *to);
    if (to == NULL) return -1;
    from = to + ranks;
    for (other = 0; other < ranks; other++) to[other] = standfast_counted_with(standfast_counts.sent, comm, other);
    if (PMPI_Alltoall(to, 1, MPI_UNSIGNED_LONG_LONG, from, 1, MPI_UNSIGNED_LONG_LONG, comm) != MPI_SUCCESS) return -1;
    for (other = 0; other < ranks; other++) {
        unsigned long long here = standfast_counted_with(standfast_counts.received, comm, other);
        if (from[other] <= here) continue;
        unmatched += from[other] - here;
        if (text[0] == 0)
            snprintf(text, sizeof text, "messages from rank %d to rank %d that were sent and are not received: %llu", other, rank,
                     from[other] - here);
    }
    free(to);
    for (at = 0; at < standfast_counts.count; at++)
        under_way += standfast_counts.requests[at].active && standfast_counts.requests[at].to < 0;
    if (text[0] == 0 && under_way > 0) {
        snprintf(text, sizeof text, "receives of rank %d that are under way: %lu", rank, (unsigned long)under_way);
        unmatched = under_way;
    }
    told = text[0] != 0 ? rank : ranks;
    if (PMPI_Allreduce(&told, &first, 1, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS) return -1;
    if (first == ranks) return 1;
    if (PMPI_Allreduce(&unmatched, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, comm) != MPI_SUCCESS) return -1;
    if (PMPI_Bcast(text, (int)sizeof text, MPI_CHAR, first, comm) != MPI_SUCCESS) return -1;
    snprintf(words, length, "the program is not quiet: %s (%llu in all)", text, all);
    return 0;
}

#define STANDFAST_COUNT_SEND(kind)                                                                                        \
    int MPI_##kind(const void *bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {                     \
        standfast_count_sent(comm, to);                                                                                   \
        return PMPI_##kind(bytes, count, type, to, tag, comm);                                                            \
    }
#define STANDFAST_COUNT_ISEND(kind)                                                                                       \
    int MPI_##kind(const void *bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request) { \
        standfast_count_sent(comm, to);                                                                                   \
        return PMPI_##kind(bytes, count, type, to, tag, comm, request);                                                   \
    }
#define STANDFAST_COUNT_SEND_INIT(kind)                                                                                   \
    int MPI_##kind(const void *bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request) { \
        int result = PMPI_##kind(bytes, count, type, to, tag, comm, request);                                             \
        if (result == MPI_SUCCESS && to >= 0) standfast_count_request(*request, comm, to, 1);                             \
        return result;                                                                                                    \
    }

STANDFAST_COUNT_SEND(Send)
STANDFAST_COUNT_SEND(Bsend)
STANDFAST_COUNT_SEND(Ssend)
STANDFAST_COUNT_SEND(Rsend)
STANDFAST_COUNT_ISEND(Isend)
STANDFAST_COUNT_ISEND(Ibsend)
STANDFAST_COUNT_ISEND(Issend)
STANDFAST_COUNT_ISEND(Irsend)
STANDFAST_COUNT_SEND_INIT(Send_init)
STANDFAST_COUNT_SEND_INIT(Bsend_init)
STANDFAST_COUNT_SEND_INIT(Ssend_init)
STANDFAST_COUNT_SEND_INIT(Rsend_init)

int MPI_Recv(void *bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    int result = PMPI_Recv(bytes, count, type, from, tag, comm, &own);
    if (result == MPI_SUCCESS) standfast_count_received(comm, &own);
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}

int MPI_Irecv(void *bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
    int result = PMPI_Irecv(bytes, count, type, from, tag, comm, request);
    if (result == MPI_SUCCESS && from != MPI_PROC_NULL) standfast_count_request(*request, comm, -1, 0);
    return result;
}

int MPI_Recv_init(void *bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
    int result = PMPI_Recv_init(bytes, count, type, from, tag, comm, request);
    if (result == MPI_SUCCESS && from != MPI_PROC_NULL) standfast_count_request(*request, comm, -1, 1);
    return result;
}

int MPI_Sendrecv(const void *bytes, int count, MPI_Datatype type, int to, int tag, void *into, int into_count,
                 MPI_Datatype into_type, int from, int from_tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    int result;
    standfast_count_sent(comm, to);
    result = PMPI_Sendrecv(bytes, count, type, to, tag, into, into_count, into_type, from, from_tag, comm, &own);
    if (result == MPI_SUCCESS) standfast_count_received(comm, &own);
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}

int MPI_Sendrecv_replace(void *bytes, int count, MPI_Datatype type, int to, int tag, int from, int from_tag, MPI_Comm comm,
                         MPI_Status *status) {
    MPI_Status own;
    int result;
    standfast_count_sent(comm, to);
    result = PMPI_Sendrecv_replace(bytes, count, type, to, tag, from, from_tag, comm, &own);
    if (result == MPI_SUCCESS) standfast_count_received(comm, &own);
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}

static void standfast_count_match(MPI_Message message, MPI_Comm comm) {
    if (message == MPI_MESSAGE_NULL || message == MPI_MESSAGE_NO_PROC) return;
    standfast_count_lock();
    standfast_counts.matched = (standfast_matched *)standfast_count_room(
        standfast_counts.matched, standfast_counts.matched_count, &standfast_counts.matched_room, sizeof(standfast_matched));
    standfast_counts.matched[standfast_counts.matched_count].message = message;
    standfast_counts.matched[standfast_counts.matched_count++].comm = comm;
    standfast_count_unlock();
}

/* Returns the communicator of a matched message that is now received, and forgets the message. */
static MPI_Comm standfast_count_matched(MPI_Message message) {
    MPI_Comm comm = MPI_COMM_NULL;
    size_t at;
    standfast_count_lock();
    for (at = 0; at < standfast_counts.matched_count; at++) {
        if (standfast_counts.matched[at].message != message) continue;
        comm = standfast_counts.matched[at].comm;
        standfast_counts.matched[at] = standfast_counts.matched[--standfast_counts.matched_count];
        break;
    }
    standfast_count_unlock();
    return comm;
}

int MPI_Mprobe(int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    int result = PMPI_Mprobe(from, tag, comm, message, status);
    if (result == MPI_SUCCESS) standfast_count_match(*message, comm);
    return result;
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status) {
    int result = PMPI_Improbe(from, tag, comm, flag, message, status);
    if (result == MPI_SUCCESS && *flag) standfast_count_match(*message, comm);
    return result;
}

int MPI_Mrecv(void *bytes, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status) {
    MPI_Status own;
    MPI_Comm comm = standfast_count_matched(*message);
    int result = PMPI_Mrecv(bytes, count, type, message, &own);
    if (result == MPI_SUCCESS && comm != MPI_COMM_NULL) standfast_count_received(comm, &own);
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}

int MPI_Imrecv(void *bytes, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request) {
    MPI_Comm comm = standfast_count_matched(*message);
    int result = PMPI_Imrecv(bytes, count, type, message, request);
    if (result == MPI_SUCCESS && comm != MPI_COMM_NULL) standfast_count_request(*request, comm, -1, 0);
    return result;
}

int MPI_Start(MPI_Request *request) {
    standfast_count_started(*request);
    return PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request requests[]) {
    int at;
    for (at = 0; at < count; at++) standfast_count_started(requests[at]);
    return PMPI_Startall(count, requests);
}

int MPI_Request_free(MPI_Request *request) {
    standfast_counted taken;
    standfast_count_take(*request, 1, &taken);
    return PMPI_Request_free(request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    MPI_Request was = *request;
    MPI_Status own;
    int result = PMPI_Wait(request, &own);
    if (result == MPI_SUCCESS) standfast_count_done(was, &own);
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    MPI_Request was = *request;
    MPI_Status own;
    int result = PMPI_Test(request, flag, &own);
    if (result != MPI_SUCCESS || !*flag) return result;
    standfast_count_done(was, &own);
    if (status != MPI_STATUS_IGNORE) *status = own;
    return result;
}

/* The requests before MPI sets finished ones to MPI_REQUEST_NULL, and statuses if the program wants none. */
typedef struct standfast_before {
    MPI_Request *requests;
    MPI_Status *statuses, *own;
} standfast_before;

static standfast_before standfast_count_before(int count, const MPI_Request *requests, MPI_Status *statuses) {
    standfast_before before;
    size_t room = (size_t)(count > 0 ? count : 1);
    before.requests = (MPI_Request *)malloc(room * sizeof(MPI_Request));
    before.own = statuses == MPI_STATUSES_IGNORE ? (MPI_Status *)malloc(room * sizeof(MPI_Status)) : NULL;
    before.statuses = before.own != NULL ? before.own : statuses;
    if (before.requests == NULL || (before.own == NULL && statuses == MPI_STATUSES_IGNORE)) PMPI_Abort(MPI_COMM_WORLD, 70);
    if (count > 0) memcpy(before.requests, requests, (size_t)count * sizeof *requests);
    return before;
}

static void standfast_count_after(standfast_before *before) {
    free(before->requests);
    free(before->own);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status *statuses) {
    standfast_before before = standfast_count_before(count, requests, statuses);
    int at, result = PMPI_Waitall(count, requests, before.statuses);
    for (at = 0; at < count && result == MPI_SUCCESS; at++) standfast_count_done(before.requests[at], &before.statuses[at]);
    standfast_count_after(&before);
    return result;
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status *statuses) {
    standfast_before before = standfast_count_before(count, requests, statuses);
    int at, result = PMPI_Testall(count, requests, flag, before.statuses);
    for (at = 0; at < count && result == MPI_SUCCESS && *flag; at++)
        standfast_count_done(before.requests[at], &before.statuses[at]);
    standfast_count_after(&before);
    return result;
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status) {
    MPI_Status own;
    standfast_before before = standfast_count_before(count, requests, &own);
    int result = PMPI_Waitany(count, requests, index, &own);
    if (result == MPI_SUCCESS && *index != MPI_UNDEFINED) standfast_count_done(before.requests[*index], &own);
    if (status != MPI_STATUS_IGNORE) *status = own;
    standfast_count_after(&before);
    return result;
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
    MPI_Status own;
    standfast_before before = standfast_count_before(count, requests, &own);
    int result = PMPI_Testany(count, requests, index, flag, &own);
    if (result == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED) standfast_count_done(before.requests[*index], &own);
    if (result == MPI_SUCCESS && *flag && status != MPI_STATUS_IGNORE) *status = own;
    standfast_count_after(&before);
    return result;
}

static int standfast_count_some(int wait, int count, MPI_Request requests[], int *done, int indices[], MPI_Status *statuses) {
    standfast_before before = standfast_count_before(count, requests, statuses);
    int at, result = wait ? PMPI_Waitsome(count, requests, done, indices, before.statuses)
                          : PMPI_Testsome(count, requests, done, indices, before.statuses);
    for (at = 0; result == MPI_SUCCESS && *done != MPI_UNDEFINED && at < *done; at++)
        standfast_count_done(before.requests[indices[at]], &before.statuses[at]);
    standfast_count_after(&before);
    return result;
}

int MPI_Waitsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status *statuses) {
    return standfast_count_some(1, count, requests, done, indices, statuses);
}

int MPI_Testsome(int count, MPI_Request requests[], int *done, int indices[], MPI_Status *statuses) {
    return standfast_count_some(0, count, requests, done, indices, statuses);
}

#endif
