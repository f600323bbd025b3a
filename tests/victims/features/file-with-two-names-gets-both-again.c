/* A file that has two names for a moment, as sem_open(3) and lock files make them, has both again when one of them or both
 * are gone by the restart: one file, that is mapped and open.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

static void one_file(const char *first, const char *second, int file, const char *wanted)
{
    struct stat a, b, c;
    char room[64] = {0};
    CHECK(stat(first, &a) == 0 && stat(second, &b) == 0 && fstat(file, &c) == 0);
    CHECK(a.st_ino == b.st_ino && a.st_ino == c.st_ino && a.st_nlink == 2);
    CHECK(pread(file, room, sizeof room, 0) == (ssize_t)strlen(wanted) && strcmp(room, wanted) == 0);
}

static int made(const char *name, const char *held)
{
    int file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && write(file, held, strlen(held)) == (ssize_t)strlen(held));
    return file;
}

int main(void)
{
    int both = made("both-temporary", "both"), own = made("own-temporary", "own"), other = made("other-temporary", "other");
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, both, 0);
    CHECK(memory != MAP_FAILED);
    memory[0] = 'B';
    CHECK(link("both-temporary", "both-last") == 0);
    CHECK(link("own-temporary", "own-last") == 0 && link("other-temporary", "other-last") == 0);
    moment("linked");
    one_file("both-temporary", "both-last", both, "Both");
    one_file("own-temporary", "own-last", own, "own");
    one_file("other-temporary", "other-last", other, "other");
    CHECK(memory[0] == 'B');
    CHECK(unlink("both-temporary") == 0 && unlink("both-last") == 0);
    CHECK(unlink("own-temporary") == 0 && unlink("other-last") == 0);
    CHECK(access("own-last", F_OK) == 0 && access("other-temporary", F_OK) == 0);
    moment("gone");
    CHECK(access("both-last", F_OK) == -1 && access("own-temporary", F_OK) == -1 && access("other-last", F_OK) == -1);
    puts("linked and unlinked");
    return 0;
}
