/* pcell: Conway's Life on a torus, each rank its own band of rows.
 *
 * CELL of "Diskless Checkpointing" (1998) and PCELL of "Memory Exclusion" (1996). Two grids that change places after each
 * generation; before each the ranks exchange their outermost rows. Self-check: each cell of the last generation is what the
 * definition says of the one before it; and the checksum is that of ../cell.c with the same arguments.
 *
 * usage: mpirun -n RANKS pcell [SIZE (2048) [GENERATIONS (300)]]
 */
#include <math.h>

#include "parallel.h"

static size_t size, rows;

/* The rows of a rank, with the neighbours' rows before the first and behind the last. */
static uint8_t *band(void)
{
    return memory((rows + 2) * size);
}

static void exchange(uint8_t *grid)
{
    int above = (rank + ranks - 1) % ranks, below = (rank + 1) % ranks, bytes = (int)size;
    MPI_Sendrecv(grid + size, bytes, MPI_BYTE, above, 1, grid + (rows + 1) * size, bytes, MPI_BYTE, below, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(grid + rows * size, bytes, MPI_BYTE, below, 2, grid, bytes, MPI_BYTE, above, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static uint8_t by_definition(const uint8_t *grid, size_t row, size_t col)
{
    int neighbours = 0;
    for (size_t down = 0; down < 3; down++)
        for (size_t right = 0; right < 3; right++)
            if (down != 1 || right != 1)
                neighbours += grid[(row + down - 1) * size + (col + size + right - 1) % size];
    return neighbours == 3 || (neighbours == 2 && grid[row * size + col]);
}

static void next_generation(const uint8_t *from, uint8_t *to)
{
    for (size_t row = 1; row <= rows; row++) {
        const uint8_t *mid = from + row * size, *up = mid - size, *down = mid + size;
        uint8_t *result = to + row * size;
        for (size_t col = 1; col + 1 < size; col++) {
            uint8_t sides = (uint8_t)(mid[col - 1] + mid[col + 1]);
            uint8_t above = (uint8_t)(up[col - 1] + up[col] + up[col + 1]);
            uint8_t below = (uint8_t)(down[col - 1] + down[col] + down[col + 1]);
            /* Three neighbours, or two and itself. */
            result[col] = ((sides + above + below) | mid[col]) == 3;
        }
        result[0] = by_definition(from, row, 0);
        result[size - 1] = by_definition(from, row, size - 1);
    }
}

static double differing(const uint8_t *before, const uint8_t *after)
{
    double cells = 0;
    for (size_t row = 1; row <= rows; row++)
        for (size_t col = 0; col < size; col++)
            cells += after[row * size + col] != by_definition(before, row, col);
    return cells;
}

int main(int count, char **words)
{
    start(&count, &words);
    size = (size_t)argument(count, words, 1, 2048, 3, 65536);
    long generations = argument(count, words, 2, 300, 1, 1000000000);
    if (size < (size_t)ranks)
        give_up("pcell: there are more ranks than rows");
    size_t first = first_of(rank, size);
    rows = first_of(rank + 1, size) - first;
    uint8_t *current = band(), *previous = band();
    for (size_t cell = 0; cell < rows * size; cell++)
        current[size + cell] = mixed(first * size + cell) % 3 == 0;
    long generation = 1;
    standfast_protect(0, &generation, sizeof generation);
    standfast_protect(1, current, (rows + 2) * size);
    standfast_restored();
    for (; generation <= generations; generation++) {
        if (standfast_due()) {
            standfast_protect(1, current, (rows + 2) * size);
            standfast_checkpoint();
        }
        uint8_t *swap = previous;
        previous = current;
        current = swap;
        exchange(previous);
        next_generation(previous, current);
    }
    check_all("cells unlike the definition", differing(previous, current), 0);
    finish(checksum_all(CHECKSUM_START, current + size, rows * size));
    return 0;
}
