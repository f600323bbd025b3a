/* pmat: the product of two matrices by Cannon's algorithm.
 *
 * MAT of "Diskless Checkpointing" (1998). The ranks form a square, each with a block of each matrix. In each of its steps a
 * rank adds the product of its blocks of A and B to that of C, and hands the block of A to the left and that of B upwards; so
 * that all three matrices change (Cannon 1969).
 *
 * The entries are small whole numbers, so that all sums are exact in any order. Self-check (Freivalds 1977): for a random
 * vector x of plus and minus ones, A (B x) is exactly C x; and the checksum is that of ../mat.c with the same size.
 *
 * usage: mpirun -n RANKS pmat [SIZE (1200)]           RANKS is a square, and its root divides SIZE
 */
#include <math.h>

#include "parallel.h"

static size_t size, side; /* of a matrix, of a block */
static int across, row_of_blocks, col_of_blocks;
static MPI_Comm grid;

/* The block at this rank's place of the square, before any has been handed on: `which` is 0 for A and 1 for B. */
static double *own_block(int which)
{
    double *block = memory(side * side * sizeof *block);
    for (size_t row = 0; row < side; row++)
        for (size_t col = 0; col < side; col++) {
            size_t cell = ((size_t)row_of_blocks * side + row) * size + (size_t)col_of_blocks * side + col;
            block[row * side + col] = (double)(mixed(2 * cell + (size_t)which) % 19) - 9;
        }
    return block;
}

static void arrange(void)
{
    int around[2] = {1, 1}, place[2], shape[2];
    while ((across + 1) * (across + 1) <= ranks)
        across++;
    if (across * across != ranks || size % (size_t)across)
        give_up("pmat: the number of ranks is to be a square whose root divides the size");
    shape[0] = shape[1] = across;
    MPI_Cart_create(MPI_COMM_WORLD, 2, shape, around, 0, &grid);
    MPI_Cart_coords(grid, rank, 2, place);
    row_of_blocks = place[0];
    col_of_blocks = place[1];
    side = size / (size_t)across;
}

/* Hands a block on along one direction of the square (0 up, 1 left), by so many places. */
static void hand_on(double *block, int direction, int places)
{
    int from, to;
    MPI_Cart_shift(grid, direction, -places, &from, &to);
    MPI_Sendrecv_replace(block, (int)(side * side), MPI_DOUBLE, to, 1, from, 1, grid, MPI_STATUS_IGNORE);
}

static void add_product(const double *a, const double *b, double *c)
{
    for (size_t row = 0; row < side; row++)
        for (size_t k = 0; k < side; k++)
            for (size_t col = 0; col < side; col++)
                c[row * side + col] += a[row * side + k] * b[k * side + col];
}

/* Of a matrix whose blocks lie at their places. */
static void apply(const double *block, const double *x, double *y)
{
    memset(y, 0, size * sizeof *y);
    for (size_t row = 0; row < side; row++)
        for (size_t col = 0; col < side; col++)
            y[(size_t)row_of_blocks * side + row] += block[row * side + col] * x[(size_t)col_of_blocks * side + col];
    MPI_Allreduce(MPI_IN_PLACE, y, (int)size, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* The largest difference between A (B x) and C x. */
static double freivalds(const double *c)
{
    double *x = memory(size * sizeof *x), *bx = memory(size * sizeof *x);
    double *abx = memory(size * sizeof *x), *cx = memory(size * sizeof *x);
    double *a = own_block(0), *b = own_block(1), largest = 0;
    for (size_t row = 0; row < size; row++)
        x[row] = mixed(~row) & 1 ? 1 : -1;
    apply(b, x, bx);
    apply(a, bx, abx);
    apply(c, x, cx);
    for (size_t row = 0; row < size; row++)
        largest = fmax(largest, fabs(abx[row] - cx[row]));
    free(x), free(bx), free(abx), free(cx), free(a), free(b);
    return largest;
}

/* Over the rows of the whole matrix: each passes through the ranks that hold a piece of it. */
static uint64_t checksum_by_rows(const double *block)
{
    uint64_t hash = CHECKSUM_START;
    int before = (rank + ranks - 1) % ranks, behind = (rank + 1) % ranks, is_last = col_of_blocks == across - 1;
    int row_start = row_of_blocks * across;
    for (size_t row = 0; row < side; row++) {
        int is_first_piece = row_of_blocks == 0 && col_of_blocks == 0 && row == 0;
        int source = col_of_blocks > 0 ? rank - 1 : row > 0 ? row_start + across - 1 : before;
        if (!is_first_piece && source != rank)
            MPI_Recv(&hash, 1, MPI_UINT64_T, source, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        hash = checksum(hash, block + row * side, side * sizeof *block);
        int target = !is_last ? rank + 1 : row + 1 < side ? row_start : behind;
        int is_last_piece = rank == ranks - 1 && row + 1 == side;
        if (!is_last_piece && target != rank)
            MPI_Send(&hash, 1, MPI_UINT64_T, target, 2, MPI_COMM_WORLD);
    }
    MPI_Bcast(&hash, 1, MPI_UINT64_T, ranks - 1, MPI_COMM_WORLD);
    return hash;
}

int main(int count, char **words)
{
    start(&count, &words);
    size = (size_t)argument(count, words, 1, 1200, 1, 32768);
    arrange();
    double *a = own_block(0), *b = own_block(1), *c = memory(side * side * sizeof *c);
    hand_on(a, 1, row_of_blocks);
    hand_on(b, 0, col_of_blocks);
    int step = 0;
    standfast_protect(0, &step, sizeof step);
    standfast_protect(1, a, side * side * sizeof *a);
    standfast_protect(2, b, side * side * sizeof *b);
    standfast_protect(3, c, side * side * sizeof *c);
    standfast_restored();
    for (; step < across; step++) {
        if (standfast_due())
            standfast_checkpoint();
        add_product(a, b, c);
        hand_on(a, 1, 1);
        hand_on(b, 0, 1);
    }
    check_all("A (B x) against C x", freivalds(c), 0);
    finish(checksum_by_rows(c));
    return 0;
}
