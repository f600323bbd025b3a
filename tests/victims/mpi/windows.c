/* A parallel program that knows nothing of Standfast, with one-sided communication. In each step each rank puts a block
 * into the window of the next one, adds to a counter of the first, and reads from the previous one. Rank 0 prints a checksum for
 * each step. Errors of MPI end the program.
 *
 * usage: windows STEPS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 1 << 14, MODULUS = 1000003 };

static int rank, size, next, previous;
/* The window: a block that the previous rank writes, and a counter. */
static struct {
    long block[BLOCK], counter;
} shared;

static long exchange(MPI_Win window, long sum, int step) {
    static long sent[BLOCK], read[BLOCK];
    long one = (sum + step) % 1000;
    for (int i = 0; i < BLOCK; i++) sent[i] = (sum * 31 + rank * 7 + i + step) % MODULUS;
    MPI_Win_fence(0, window);
    MPI_Put(sent, BLOCK, MPI_LONG, next, 0, BLOCK, MPI_LONG, window);
    MPI_Accumulate(&one, 1, MPI_LONG, 0, BLOCK, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    MPI_Get(read, BLOCK, MPI_LONG, previous, 0, BLOCK, MPI_LONG, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    for (int i = 0; i < BLOCK; i += 97) sum = (sum * 13 + read[i] + shared.block[i]) % MODULUS;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(&one, 1, MPI_LONG, 0, BLOCK, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    return (sum + one) % MODULUS;
}

int main(int argc, char **argv) {
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    MPI_Win_create(&shared, sizeof shared, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    long sum = rank, total;
    int steps = argc == 2 ? atoi(argv[1]) : 0;
    for (int step = 0; step < steps; step++) {
        sum = exchange(window, sum, step);
        MPI_Reduce(&sum, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%d %ld\n", step, total % MODULUS);
            fflush(stdout);
        }
        usleep(5000);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
