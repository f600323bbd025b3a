/* A mapping that lies in pieces because parts of it have no access becomes one again, also after a restart, when they get
 * it: it can be moved and grown as a whole.
 *
 * expect: survive
 * run: --track hash
 */
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 9 };
static const int READ_WRITE = PROT_READ | PROT_WRITE, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS;

static unsigned char *map(int access, int flags)
{
    unsigned char *start = mmap(NULL, PAGES * PAGE, access, flags, -1, 0);
    CHECK(start != MAP_FAILED);
    return start;
}

int main(void)
{
    /* One that was writable, a reservation, and a reservation that does not count as memory. */
    unsigned char *pieces[3] = {map(READ_WRITE, PRIVATE), map(PROT_NONE, PRIVATE),
                                map(PROT_NONE, PRIVATE | MAP_NORESERVE)};
    memset(pieces[0], 1, PAGES * PAGE);
    CHECK(mprotect(pieces[0] + 3 * PAGE, 3 * PAGE, PROT_NONE) == 0);
    for (int i = 1; i < 3; i++) {
        CHECK(mprotect(pieces[i], 3 * PAGE, READ_WRITE) == 0);
        memset(pieces[i], 1, 3 * PAGE);
    }
    moment("in pieces");
    for (int i = 0; i < 3; i++) {
        CHECK(mprotect(pieces[i], PAGES * PAGE, READ_WRITE) == 0);
        memset(pieces[i], i + 2, 2 * PAGE);
        unsigned char *moved = mremap(pieces[i], PAGES * PAGE, 4 * PAGES * PAGE, MREMAP_MAYMOVE);
        CHECK(moved != MAP_FAILED && moved[0] == i + 2 && moved[2 * PAGE] == 1);
        CHECK(moved[4 * PAGE] == (i == 0) && moved[4 * PAGES * PAGE - 1] == 0);
    }
    puts("one piece each");
    return 0;
}
