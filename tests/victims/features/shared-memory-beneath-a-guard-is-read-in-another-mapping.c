/* What lies beneath a guarded page of shared memory is carried over where another mapping shows it, and the guard still
 * guards.
 *
 * expect: survive
 */
#include "guards.h"

int main(void)
{
    enum { PAGE = 4096 };
    int file = memfd_create("twice", MFD_CLOEXEC);
    CHECK(file >= 0 && ftruncate(file, 4 * PAGE) == 0);
    char *one = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *other = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(one != MAP_FAILED && other != MAP_FAILED && close(file) == 0);
    strcpy(one + PAGE, "beneath");
    if (madvise(one + PAGE, PAGE, MADV_GUARD_INSTALL) != 0)
        LACKS("guarded pages of shared memory (Linux 6.15)");
    for (int life = 0; life < 2; life++) {
        moment("guarded");
        CHECK(faults(one + PAGE) && !faults(one) && strcmp(other + PAGE, "beneath") == 0);
    }
    CHECK(madvise(one + PAGE, PAGE, MADV_GUARD_REMOVE) == 0 && strcmp(one + PAGE, "beneath") == 0);
    puts(one + PAGE);
    return 0;
}
