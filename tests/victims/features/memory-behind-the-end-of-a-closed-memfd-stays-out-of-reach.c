/* Memory behind the end of a file in memory that is mapped and closed cannot be touched, nor that behind the end of shared
 * memory whose mapping was made longer. All before the end can, whether it was written or not.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 40 };

static int probe[2];

/* Reports whether the page at this place can be read, which makes nothing of a page that cannot. */
static int can_be_read(const char *mapping, int page)
{
    char byte;
    errno = 0;
    if (write(probe[1], mapping + page * PAGE, 1) == 1)
        return read(probe[0], &byte, 1) == 1;
    CHECK(errno == EFAULT);
    return 0;
}

/* Maps `PAGES` pages of a new file of this length, in which the pages of `written` are written, and closes it. */
static char *map_file(off_t bytes, uint64_t written, int how)
{
    int file = memfd_create("short", 0);
    CHECK(file >= 0 && ftruncate(file, bytes) == 0);
    for (int page = 0; page < PAGES; page++)
        CHECK(!(written >> page & 1) || pwrite(file, "x", 1, page * PAGE) == 1);
    char *mapping = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, how, file, 0);
    CHECK(mapping != MAP_FAILED && close(file) == 0);
    return mapping;
}

int main(void)
{
    CHECK(pipe(probe) == 0);
    struct {
        char *mapping;
        int pages;
        uint64_t written;
    } all[] = {
        {map_file(2 * PAGE, 1, MAP_SHARED), 2, 1},
        {map_file(7 * PAGE + 5, 1 << 7, MAP_SHARED), 8, 1 << 7},
        {map_file(13 * PAGE, 0, MAP_SHARED), 13, 0},
        {map_file(0, 0, MAP_SHARED), 0, 0},
        {map_file(PAGES * PAGE, 2, MAP_SHARED), PAGES, 2},
        {map_file(100 * PAGE, 0, MAP_SHARED), PAGES, 0},
        {map_file(21 * PAGE, 1 << 3, MAP_PRIVATE), 21, 1 << 3},
        {mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 3, 1},
    };
    enum { ALL = sizeof all / sizeof *all };
    all[ALL - 1].mapping[0] = 'x';
    all[ALL - 1].mapping = mremap(all[ALL - 1].mapping, 3 * PAGE, PAGES * PAGE, MREMAP_MAYMOVE);
    CHECK(all[ALL - 1].mapping != MAP_FAILED);
    // This one has no access at the checkpoint.
    CHECK(mprotect(all[2].mapping, PAGES * PAGE, PROT_NONE) == 0);
    moment("mapped");
    moment("again");
    CHECK(mprotect(all[2].mapping, PAGES * PAGE, PROT_READ) == 0);
    for (int at = 0; at < ALL; at++)
        for (int page = 0; page < PAGES; page++) {
            CHECK(can_be_read(all[at].mapping, page) == (page < all[at].pages));
            CHECK(page >= all[at].pages || all[at].mapping[page * PAGE] == (all[at].written >> page & 1 ? 'x' : 0));
        }
    moment("read");
    for (int at = 0; at < ALL; at++)
        for (int page = 0; page < PAGES; page++)
            CHECK(can_be_read(all[at].mapping, page) == (page < all[at].pages));
    puts("out of reach");
    return 0;
}
