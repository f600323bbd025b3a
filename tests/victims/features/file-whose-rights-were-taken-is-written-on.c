/* Files that are open for more than their rights allow by now, as git leaves its packs: written on, and written through a
 * mapping, with the rights that they have.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
    int file = open("pack", O_RDWR | O_CREAT | O_TRUNC, 0444), shared = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && shared >= 0 && ftruncate(shared, 4096) == 0 && fchmod(shared, 0400) == 0);
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    CHECK(mapped != MAP_FAILED && close(shared) == 0);
    for (int life = 0; life < 3; life++) {
        struct stat now;
        CHECK(write(file, "a line\n", 7) == 7);
        mapped[life] = 'a';
        moment("open for more");
        CHECK(fstat(file, &now) == 0 && (now.st_mode & 07777) == 0444);
        CHECK(stat("shared", &now) == 0 && (now.st_mode & 07777) == 0400);
    }
    CHECK(strcmp(mapped, "aaa") == 0 && lseek(file, 0, SEEK_CUR) == 21);
    puts("three lines");
    return 0;
}
