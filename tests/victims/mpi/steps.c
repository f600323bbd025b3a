/* A parallel program that knows nothing of Standfast. In each step all ranks combine a number, exchange large messages, which
 * need a handshake, and small ones around a ring, on a second thread if MPI allows that; and one rank has a child compute
 * something. Rank 0 prints a checksum for each step. Errors of MPI end the program.
 *
 * usage: steps STEPS
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where MPICH says MPI_STATUSES_IGNORE, gcc sees an array at the address 1. */
#pragma GCC diagnostic ignored "-Wstringop-overflow"

enum { LARGE_BYTES = 1 << 19, SMALL_COUNT = 16, MODULUS = 1000003 };

static int rank, size, next, previous;
/* Of the second thread. */
static MPI_Comm ring;
static long small_sum;

static void must(int holds, const char *what) {
    if (holds) return;
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void *exchange_small(void *unused) {
    for (int i = 0; i < SMALL_COUNT; i++) {
        long sent = small_sum + rank * 100 + i, received = 0;
        MPI_Sendrecv(&sent, 1, MPI_LONG, next, i, &received, 1, MPI_LONG, previous, i, ring, MPI_STATUS_IGNORE);
        small_sum = (small_sum * 3 + received) % MODULUS;
    }
    return unused;
}

static long exchange_large(long sum, int step) {
    static unsigned char sent[LARGE_BYTES], received[LARGE_BYTES];
    MPI_Request requests[2];
    memset(sent, (int)((sum + rank + step) & 0x7f), sizeof sent);
    MPI_Irecv(received, sizeof received, MPI_UNSIGNED_CHAR, previous, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, sizeof sent, MPI_UNSIGNED_CHAR, next, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (size_t at = 0; at < sizeof received; at += 4099) sum = (sum * 7 + received[at]) % MODULUS;
    return sum;
}

/* Adds what a child has computed. */
static long with_a_child(long sum) {
    int line[2], status;
    long answer = 0;
    must(pipe(line) == 0, "pipe");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        answer = (sum * sum + 1) % MODULUS;
        _exit(write(line[1], &answer, sizeof answer) != sizeof answer);
    }
    must(close(line[1]) == 0 && read(line[0], &answer, sizeof answer) == sizeof answer && close(line[0]) == 0, "read");
    must(waitpid(child, &status, 0) == child && status == 0, "wait");
    return (sum + answer) % MODULUS;
}

int main(int argc, char **argv) {
    int provided, steps = argc == 2 ? atoi(argv[1]) : 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &ring);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    long sum = rank, total;
    for (int step = 0; step < steps; step++) {
        pthread_t second;
        long mine = (sum * 31 + rank + step) % MODULUS;
        int has_threads = provided == MPI_THREAD_MULTIPLE;
        MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (has_threads) must(pthread_create(&second, NULL, exchange_small, NULL) == 0, "pthread_create");
        sum = exchange_large(sum, step);
        if (has_threads) must(pthread_join(second, NULL) == 0, "pthread_join");
        else exchange_small(NULL);
        if (step % size == rank) sum = with_a_child(sum);
        mine = (sum + small_sum) % MODULUS;
        MPI_Reduce(&mine, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) must(printf("%d %ld\n", step, total) > 0 && fflush(stdout) == 0, "printf");
        usleep(5000);
    }
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
