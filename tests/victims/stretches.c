/* Writes to stretches of 2 MiB by habit: all over for a while, a page here and there, not at all; on huge pages and on small
 * ones, which it asks for, forbids, and has made of small ones in between; discards, maps again, moves away and back.
 * What it does follows from a seed; a single page that is not what it was written to be changes the result.
 *
 * usage: stretches [SEED [TURNS]]; with 0 turns it does not end */
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096, UNITS = 4, UNIT = 2 << 20, PAGES = UNIT / PAGE, COLLAPSE = 25 };
enum habit { IDLE, ALL_OVER, ONE_PAGE, SOME_PAGES, HABITS };

static unsigned char *memory, *elsewhere;
static uint64_t numbers;

static size_t below(size_t limit) { return next_number(&numbers) % limit; }

static unsigned char *aligned(void)
{
    unsigned char *at = mmap(NULL, (UNITS + 1) * UNIT, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED);
    return (unsigned char *)(((uintptr_t)at + UNIT - 1) / UNIT * UNIT);
}

static void write_page(unsigned char *unit, size_t page)
{
    uint64_t number = next_number(&numbers);
    memcpy(unit + page * PAGE + number % (PAGE - 8), &number, sizeof number);
}

static void follow(unsigned char *unit, enum habit habit)
{
    if (habit == ALL_OVER)
        for (size_t page = 0; page < PAGES; page++)
            write_page(unit, page);
    else if (habit != IDLE)
        for (size_t times = habit == ONE_PAGE ? 1 : below(PAGES / 2); times > 0; times--)
            write_page(unit, below(PAGES));
}

/* Something else than writing. */
static void change(unsigned char *unit)
{
    size_t first = below(PAGES), pages = 1 + below(PAGES - first);
    switch (below(8)) {
    case 0:
        CHECK(madvise(unit, UNIT, MADV_HUGEPAGE) == 0);
        break;
    case 1:
        CHECK(madvise(unit, UNIT, MADV_NOHUGEPAGE) == 0);
        break;
    case 2:
    case 3:
        /* It may well be refused, and changes nothing that can be read. */
        (void)madvise(unit, UNIT, COLLAPSE);
        break;
    case 4:
        CHECK(madvise(unit + first * PAGE, pages * PAGE, MADV_DONTNEED) == 0);
        break;
    case 5:
        CHECK(mmap(unit, UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                   0) == unit);
        CHECK(madvise(unit, UNIT, below(2) ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0);
        break;
    case 6:
        CHECK(mremap(unit, UNIT, UNIT, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) == elsewhere);
        CHECK(mremap(elsewhere, UNIT, UNIT, MREMAP_MAYMOVE | MREMAP_FIXED, unit) == unit);
        break;
    default:
        memset(unit + first * PAGE, 0, pages * PAGE);
    }
}

int main(int argc, char **argv)
{
    numbers = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    uint64_t turns = argc > 2 ? strtoul(argv[2], NULL, 10) : 12000;
    enum habit habits[UNITS] = {IDLE};
    memory = aligned();
    elsewhere = aligned();
    for (size_t unit = 0; unit < UNITS; unit++) {
        CHECK(madvise(memory + unit * UNIT, UNIT, unit % 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0);
        follow(memory + unit * UNIT, ALL_OVER);
    }
    for (uint64_t turn = 0; turns == 0 || turn < turns; turn++) {
        size_t unit = below(UNITS);
        if (below(8) == 0)
            habits[unit] = below(HABITS);
        if (below(24) == 0)
            change(memory + below(UNITS) * UNIT);
        for (unit = 0; unit < UNITS; unit++)
            follow(memory + unit * UNIT, habits[unit]);
        if (turn % 256 == 0)
            printf("%lu %016lx\n", (unsigned long)turn, (unsigned long)fold(FOLD_START, memory, UNITS * UNIT));
    }
    printf("%016lx\n", (unsigned long)fold(FOLD_START, memory, UNITS * UNIT));
    return 0;
}
