/* A small file that the program goes on to overwrite in place, shorten and lengthen after the checkpoint holds at the restart
 * what it held, as a compiler's output or a small database does.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

static void holds(int file, const char *wanted)
{
    char room[64] = {0};
    CHECK(pread(file, room, sizeof room - 1, 0) == (ssize_t)strlen(wanted) && strcmp(room, wanted) == 0);
}

int main(void)
{
    int file = open("table", O_RDWR | O_CREAT | O_TRUNC, 0644), tail = open("list", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0 && tail >= 0 && write(file, "one two three", 13) == 13 && write(tail, "alpha beta", 10) == 10);
    moment("written");
    holds(file, "one two three");
    holds(tail, "alpha beta");
    CHECK(pwrite(file, "six", 3, 4) == 3 && ftruncate(tail, 5) == 0);
    moment("overwritten");
    holds(file, "one six three");
    holds(tail, "alpha");
    CHECK(pwrite(file, "ten", 3, 0) == 3 && pwrite(file, " four", 5, 13) == 5 && ftruncate(tail, 0) == 0);
    holds(file, "ten six three four");
    holds(tail, "");
    puts("the table is as it was left");
    return 0;
}
