/* A named pipe whose ends are both the program's keeps what is in it; so does one whose name has been removed.
 * Its owner may have taken away his own right to write to it.
 *
 * expect: survive
 * no-rollback: the program removes the pipe at its end
 */
#include "check.h"
#include <fcntl.h>

static int ends[2][2];

int main(void)
{
    char room[32];
    CHECK((mkfifo("fifo", 0600) == 0 || errno == EEXIST) && mkfifo("passing", 0600) == 0);
    const char *names[2] = {"fifo", "passing"};
    for (int i = 0; i < 2; i++) {
        ends[i][0] = open(names[i], O_RDONLY | O_NONBLOCK);
        ends[i][1] = open(names[i], O_WRONLY);
        CHECK(ends[i][0] >= 0 && ends[i][1] >= 0 && write(ends[i][1], "in the pipe", 11) == 11);
    }
    CHECK(unlink("passing") == 0);
    CHECK(fchmod(ends[0][0], 0400) == 0);
    moment("filled");
    struct stat found;
    CHECK(fstat(ends[0][0], &found) == 0 && (found.st_mode & 07777) == 0400 && fchmod(ends[0][0], 0600) == 0);
    for (int i = 0; i < 2; i++) {
        memset(room, 0, sizeof room);
        CHECK(read(ends[i][0], room, sizeof room) == 11 && strcmp(room, "in the pipe") == 0);
        CHECK(read(ends[i][0], room, sizeof room) == -1 && errno == EAGAIN && !(fcntl(ends[i][1], F_GETFL) & O_NONBLOCK));
        CHECK(write(ends[i][1], "more", 4) == 4 && close(ends[i][1]) == 0);
    }
    moment("writerless");
    for (int i = 0; i < 2; i++)
        CHECK(read(ends[i][0], room, sizeof room) == 4 && read(ends[i][0], room, sizeof room) == 0);
    int again = open("fifo", O_WRONLY | O_NONBLOCK);
    CHECK(again >= 0 && write(again, "!", 1) == 1 && read(ends[0][0], room, sizeof room) == 1);
    CHECK(write(again, "left", 4) == 4 && close(ends[0][0]) == 0);
    moment("readerless");
    /* The next reader finds what its predecessors have left. */
    ends[0][0] = open("fifo", O_RDONLY | O_NONBLOCK);
    CHECK(ends[0][0] >= 0 && read(ends[0][0], room, sizeof room) == 4 && memcmp(room, "left", 4) == 0);
    CHECK(unlink("fifo") == 0);
    puts("every byte");
    return 0;
}
