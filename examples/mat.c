/* mat: the product of two matrices that are read from disk, written to disk.
 *
 * MAT of "Libckpt: Transparent Checkpointing under Unix" (1995): the factors are read-only once they are read, and a row of
 * the product once it is calculated. That is also what incremental checkpoints find by themselves.
 *
 * The entries are small whole numbers, so that sums are exact. Self-check (Freivalds 1977): for a random vector x of plus
 * and minus ones, A (B x) is exactly C x.
 *
 * Leaves mat.a, mat.b and mat.product in the current folder.      usage: mat [SIZE (1200)]
 */
#include "example.h"

static size_t size;

static double *matrix(void)
{
    return memory(size * size * sizeof(double));
}

static void save(const char *name, const double *cells)
{
    FILE *file = fopen(name, "w");
    if (!file || fwrite(cells, sizeof *cells, size * size, file) != size * size || fclose(file))
        fail(name);
}

static void load(const char *name, double *cells)
{
    FILE *file = fopen(name, "r");
    if (!file || fread(cells, sizeof *cells, size * size, file) != size * size)
        fail(name);
    fclose(file);
}

/* Writes the two factors, as somebody else has done in the paper. */
static void make_input(void)
{
    double *cells = matrix();
    for (size_t cell = 0; cell < size * size; cell++)
        cells[cell] = (double)(mixed(2 * cell) % 19) - 9;
    save("mat.a", cells);
    for (size_t cell = 0; cell < size * size; cell++)
        cells[cell] = (double)(mixed(2 * cell + 1) % 19) - 9;
    save("mat.b", cells);
    free(cells);
}

/* One row of the product. */
static void multiply(const double *row, const double *b, double *product)
{
    for (size_t k = 0; k < size; k++)
        for (size_t col = 0; col < size; col++)
            product[col] += row[k] * b[k * size + col];
}

static void apply(const double *cells, const double *x, double *y)
{
    for (size_t row = 0; row < size; row++) {
        y[row] = 0;
        for (size_t col = 0; col < size; col++)
            y[row] += cells[row * size + col] * x[col];
    }
}

/* The largest difference between A (B x) and C x. */
static double freivalds(const double *a, const double *b, const double *c)
{
    double *x = memory(size * sizeof *x), *bx = memory(size * sizeof *x);
    double *abx = memory(size * sizeof *x), *cx = memory(size * sizeof *x);
    double largest = 0;
    for (size_t row = 0; row < size; row++)
        x[row] = mixed(~row) & 1 ? 1 : -1;
    apply(b, x, bx);
    apply(a, bx, abx);
    apply(c, x, cx);
    for (size_t row = 0; row < size; row++) {
        double difference = abx[row] < cx[row] ? cx[row] - abx[row] : abx[row] - cx[row];
        largest = difference > largest ? difference : largest;
    }
    free(x), free(bx), free(abx), free(cx);
    return largest;
}

int main(int count, char **words)
{
    size = (size_t)argument(count, words, 1, 1200, 1, 32768);
    make_input();
    double *a = matrix(), *b = matrix(), *c = matrix();
    load("mat.a", a);
    load("mat.b", b);
    exclude_bytes(a, size * size * sizeof *a, CKPT_READONLY);
    exclude_bytes(b, size * size * sizeof *b, CKPT_READONLY);
    for (size_t row = 0; row < size; row++) {
        multiply(a + row * size, b, c + row * size);
        exclude_bytes(c + row * size, size * sizeof *c, CKPT_READONLY);
    }
    save("mat.product", c);
    check("A (B x) against C x", freivalds(a, b, c), 0);
    printf("checksum %016llx\n", (unsigned long long)checksum(CHECKSUM_START, c, size * size * sizeof *c));
    return 0;
}
