/* A private mapping of a memfd that is closed, in which the program has changed pages, is refused by name: what lies beneath
 * these only root can see.
 *
 * expect: refuse "private mapping of a memfd"
 * doctor-blind: what the program has changed is looked for only while it stands still
 * needs: user
 */
#include "check.h"
#include <sys/mman.h>

int main(void)
{
    int file = memfd_create("closed", MFD_CLOEXEC);
    CHECK(file >= 0 && ftruncate(file, 8192) == 0 && pwrite(file, "beneath", 7, 0) == 7);
    char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(memory != MAP_FAILED && close(file) == 0);
    memory[0] = 'B';
    moment("changed");
    CHECK(strcmp(memory, "Beneath") == 0);
    puts(memory);
    return 0;
}
