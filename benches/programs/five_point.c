/* Heat that spreads over a plate, by the five-point formula and Jacobi's iteration. Each rank has some rows, and exchanges those at
 * its edges with its neighbours in each step. The program knows nothing of Standfast. It prints the sum of all points, which
 * does not depend on anything but the number of ranks.
 *
 *   five_point STEPS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 2048 };

static void exchange(double *rows, int own, int rank, int ranks) {
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(rows + SIDE, SIDE, MPI_DOUBLE, above, 0, rows + (own + 1) * SIDE, SIDE, MPI_DOUBLE, below, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(rows + own * SIDE, SIDE, MPI_DOUBLE, below, 0, rows, SIDE, MPI_DOUBLE, above, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void step(const double *from, double *to, int own) {
    for (int row = 1; row <= own; row++) {
        const double *at = from + row * SIDE;
        for (int column = 1; column < SIDE - 1; column++)
            to[row * SIDE + column] = 0.25 * (at[column - 1] + at[column + 1] + at[column - SIDE] + at[column + SIDE]);
    }
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    if (count < 2) return 2;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int own = SIDE / ranks;
    size_t points = (size_t)(own + 2) * SIDE;
    double *from = calloc(points, sizeof *from), *to = calloc(points, sizeof *to);
    if (!from || !to) return 3;
    /* The left edge is hot. */
    for (int row = 0; row < own + 2; row++) from[row * SIDE] = to[row * SIDE] = 1.0;
    for (long turn = strtol(words[1], NULL, 10); turn > 0; turn--) {
        exchange(from, own, rank, ranks);
        step(from, to, own);
        double *last = from;
        from = to;
        to = last;
    }
    double sum = 0, all = 0;
    for (int point = SIDE; point < (own + 1) * SIDE; point++) sum += from[point];
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%a\n", all);
    MPI_Finalize();
}
