/* Shared memory without a name of which a page is guarded is refused by name: what lies beneath the guard only root can see.
 *
 * expect: refuse "guarded"
 * doctor-blind: what lies beneath is looked for only while the program stands still
 * needs: user
 */
#include "guards.h"

int main(void)
{
    enum { PAGE = 4096 };
    char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    strcpy(memory + PAGE, "beneath");
    if (madvise(memory + PAGE, PAGE, MADV_GUARD_INSTALL) != 0)
        LACKS("guarded pages of shared memory (Linux 6.15)");
    moment("guarded");
    CHECK(madvise(memory + PAGE, PAGE, MADV_GUARD_REMOVE) == 0 && strcmp(memory + PAGE, "beneath") == 0);
    puts(memory + PAGE);
    return 0;
}
