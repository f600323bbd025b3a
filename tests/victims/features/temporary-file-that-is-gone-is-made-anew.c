/* A small file that is open for writing at the checkpoint and gone by the restart, as temporary files often are, is there
 * again with what it held: also one that is only added to.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

static void holds(const char *path, const char *wanted)
{
    char room[64] = {0};
    int file = open(path, O_RDONLY);
    CHECK(file >= 0 && read(file, room, sizeof room - 1) == (ssize_t)strlen(wanted) && strcmp(room, wanted) == 0);
    CHECK(close(file) == 0);
}

int main(void)
{
    int scratch = open("scratch", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int journal = open("journal", O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0640);
    struct stat now;
    CHECK(scratch >= 0 && journal >= 0 && write(scratch, "one ", 4) == 4 && write(journal, "alpha ", 6) == 6);
    moment("open");
    CHECK(write(scratch, "two", 3) == 3 && write(journal, "beta", 4) == 4);
    CHECK(close(scratch) == 0 && close(journal) == 0);
    holds("scratch", "one two");
    holds("journal", "alpha beta");
    CHECK(stat("journal", &now) == 0 && (now.st_mode & 0777) == 0640);
    CHECK(unlink("scratch") == 0 && unlink("journal") == 0);
    moment("gone");
    CHECK(access("scratch", F_OK) == -1 && access("journal", F_OK) == -1);
    puts("what was temporary has served");
    return 0;
}
