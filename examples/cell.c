/* cell: a cellular automaton, Conway's Life, on a torus; one byte a cell.
 *
 * CELL of the papers of 1995 and 1996: two grids that change places after each generation. Between generations the values of
 * the previous one are dead, which is half of the memory; incremental checkpoints save nothing, as both are written.
 *
 * Self-checks: a glider on a small torus comes back to where it was, cell by cell; and each cell of the last generation is
 * what the definition says of the one before it.
 *
 * usage: cell [SIZE (2048) [GENERATIONS (300)]]
 */
#include "example.h"

/* A cell of the next generation, as the rule says it. */
static uint8_t by_definition(const uint8_t *grid, size_t size, size_t row, size_t col)
{
    int neighbours = 0;
    for (size_t down = 0; down < 3; down++)
        for (size_t right = 0; right < 3; right++)
            if (down != 1 || right != 1)
                neighbours += grid[(row + size + down - 1) % size * size + (col + size + right - 1) % size];
    return neighbours == 3 || (neighbours == 2 && grid[row * size + col]);
}

/* The same for a whole grid, quickly. */
static void next_generation(const uint8_t *from, uint8_t *to, size_t size)
{
    for (size_t row = 0; row < size; row++) {
        const uint8_t *mid = from + row * size;
        const uint8_t *up = from + (row + size - 1) % size * size, *down = from + (row + 1) % size * size;
        uint8_t *result = to + row * size;
        for (size_t col = 1; col + 1 < size; col++) {
            uint8_t sides = (uint8_t)(mid[col - 1] + mid[col + 1]);
            uint8_t above = (uint8_t)(up[col - 1] + up[col] + up[col + 1]);
            uint8_t below = (uint8_t)(down[col - 1] + down[col] + down[col + 1]);
            /* Three neighbours, or two and itself: exactly then the last two bits below are set and no other. */
            result[col] = ((sides + above + below) | mid[col]) == 3;
        }
        result[0] = by_definition(from, size, row, 0);
        result[size - 1] = by_definition(from, size, row, size - 1);
    }
}

/* How many cells differ after a glider has gone once around a torus of `size`: it moves by one cell in four generations. */
static double glider_astray(void)
{
    enum { SIZE = 16 };
    static uint8_t start[SIZE * SIZE], grids[2][SIZE * SIZE];
    const size_t glider[] = {1, SIZE + 2, 2 * SIZE, 2 * SIZE + 1, 2 * SIZE + 2};
    for (size_t at = 0; at < 5; at++)
        start[glider[at]] = 1;
    memcpy(grids[0], start, sizeof start);
    for (size_t generation = 0; generation < 4 * SIZE; generation++)
        next_generation(grids[generation % 2], grids[(generation + 1) % 2], SIZE);
    double astray = 0;
    for (size_t cell = 0; cell < sizeof start; cell++)
        astray += grids[0][cell] != start[cell];
    return astray;
}

static double differing(const uint8_t *before, const uint8_t *after, size_t size)
{
    double cells = 0;
    for (size_t row = 0; row < size; row++)
        for (size_t col = 0; col < size; col++)
            cells += after[row * size + col] != by_definition(before, size, row, col);
    return cells;
}

int main(int count, char **words)
{
    size_t size = (size_t)argument(count, words, 1, 2048, 3, 65536), cells = size * size;
    long generations = argument(count, words, 2, 300, 1, 1000000000);
    check("cells of a glider astray", glider_astray(), 0);

    uint8_t *current = memory(cells), *previous = memory(cells);
    for (size_t cell = 0; cell < cells; cell++)
        current[cell] = mixed(cell) % 3 == 0;
    for (long generation = 1; generation <= generations; generation++) {
        uint8_t *swap = previous;
        previous = current;
        current = swap;
        next_generation(previous, current, size);
        if (generation == generations)
            check("cells unlike the definition", differing(previous, current, size), 0);
        exclude_bytes(previous, cells, CKPT_DEAD);
        checkpoint_here();
        include_bytes(previous, cells);
    }
    printf("checksum %016llx\n", (unsigned long long)checksum(CHECKSUM_START, current, cells));
    return 0;
}
