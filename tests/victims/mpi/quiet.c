/* Messages of every kind, all received: a checkpoint counts. Then some that are not received, and a receive that waits: it is
 * given up, with the reason. Process 0 prints a line for each checkpoint. Four processes. */
#include <stdio.h>

#define STANDFAST_MPI_COUNT
#define STANDFAST_MPI_IMPLEMENTATION
#include <standfast_mpi.h>

#include "must.h"

/* Where MPICH says MPI_STATUSES_IGNORE, gcc sees an array at the address 1. */
#pragma GCC diagnostic ignored "-Wstringop-overflow"

static standfast_group *group;
static int rank;

static void checkpoint(const char *when) {
    MPI_Barrier(MPI_COMM_WORLD);
    int given_up = must(standfast_group_checkpoint(group), "checkpoint");
    if (rank == 0) printf("%s: %s\n", when, given_up ? standfast_group_error() : "counts");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Between the two of each pair, in both directions; within another communicator, where the ranks are others. */
static void exchange(void) {
    MPI_Comm pair;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &pair);
    int own, out[8] = {0}, in[8], index, done, indices[2];
    MPI_Comm_rank(pair, &own);
    int other = 1 - own;
    MPI_Request requests[4], lasting[2];
    MPI_Status status;
    MPI_Message message;
    MPI_Sendrecv(out, 1, MPI_INT, other, 0, in, 1, MPI_INT, MPI_ANY_SOURCE, 0, pair, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(in, 1, MPI_INT, other, 0, other, 0, pair, &status);
    for (int at = 0; at < 2; at++) {
        MPI_Irecv(&in[at], 1, MPI_INT, at == 0 ? MPI_ANY_SOURCE : other, 1 + at, pair, &requests[at]);
        MPI_Isend(&out[at], 1, MPI_INT, other, 1 + at, pair, &requests[2 + at]);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Recv_init(in, 1, MPI_INT, other, 3, pair, &lasting[0]);
    MPI_Send_init(out, 1, MPI_INT, other, 3, pair, &lasting[1]);
    for (int again = 0; again < 3; again++) {
        MPI_Startall(2, lasting);
        if (again == 0) for (int at = 0; at < 2; at++) MPI_Waitany(2, lasting, &index, MPI_STATUS_IGNORE);
        if (again == 1) for (int left = 2; left > 0; left -= done) MPI_Waitsome(2, lasting, &done, indices, MPI_STATUSES_IGNORE);
        for (int flag = again < 2; !flag;) MPI_Testall(2, lasting, &flag, MPI_STATUSES_IGNORE);
    }
    for (int at = 0; at < 2; at++) MPI_Request_free(&lasting[at]);
    MPI_Irecv(in, 1, MPI_INT, other, 4, pair, &requests[0]);
    MPI_Send(out, 1, MPI_INT, other, 4, pair);
    for (int flag = 0; !flag;) MPI_Test(&requests[0], &flag, &status);
    MPI_Isend(out, 1, MPI_INT, other, 5, pair, &requests[0]);
    MPI_Mprobe(MPI_ANY_SOURCE, 5, pair, &message, &status);
    MPI_Mrecv(in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Irecv(in, 1, MPI_INT, other, 6, pair, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Send(out, 1, MPI_INT, MPI_PROC_NULL, 0, pair);
    MPI_Recv(in, 1, MPI_INT, MPI_PROC_NULL, 0, pair, MPI_STATUS_IGNORE);
    MPI_Comm_free(&pair);
}

int main(int argc, char **argv) {
    int step = 0, in[3];
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    must(standfast_mpi_join(MPI_COMM_WORLD, NULL, &group), "join");
    must(standfast_group_protect(group, 0, &step, 1, sizeof step), "protect");
    exchange();
    checkpoint("all received");
    for (int at = 0; at < 3 && rank == 1; at++) MPI_Send(&step, 1, MPI_INT, 2, at, MPI_COMM_WORLD);
    checkpoint("three on their way");
    for (int at = 0; at < 3 && rank == 2; at++) MPI_Recv(&in[at], 1, MPI_INT, 1, at, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    checkpoint("and received");
    if (rank == 3) MPI_Irecv(in, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
    checkpoint("one awaited");
    if (rank == 0) MPI_Send(&step, 1, MPI_INT, 3, 0, MPI_COMM_WORLD);
    if (rank == 3) MPI_Wait(&request, MPI_STATUS_IGNORE);
    checkpoint("and come");
    must(standfast_group_finish(group), "finish");
    MPI_Finalize();
    return 0;
}
