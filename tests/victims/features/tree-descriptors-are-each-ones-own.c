/* What a child has closed, renumbered or opened since the fork is its own; flags of descriptors too.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    struct line line;
    char text[4];
    int file = open("notes", O_RDWR | O_CREAT | O_EXCL, 0644);
    CHECK(file >= 0 && write(file, "abc", 3) == 3);
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        CHECK(dup3(file, 600, O_CLOEXEC) == 600 && close(file) == 0);
        int other = open("notes", O_RDONLY);
        CHECK(other == file);
        for (int word; read(line.down[0], &word, sizeof word) == sizeof word;) {
            CHECK(fcntl(600, F_GETFD) == FD_CLOEXEC && fcntl(other, F_GETFD) == 0);
            CHECK(pread(600, text, 3, 0) == 3 && lseek(600, 0, SEEK_CUR) == 3);
            CHECK(read(other, text, 1) == 1 && text[0] == 'a' + word);
            CHECK(write(other, "x", 1) == -1 && errno == EBADF);
            put(line.up[1], word);
        }
        _exit(0);
    }
    be_parent(&line);
    for (int round = 0; round < 3; round++) {
        moment("apart");
        CHECK(fcntl(600, F_GETFD) == -1 && errno == EBADF && lseek(file, 0, SEEK_CUR) == 3);
        put(line.down[1], round);
        CHECK(get(line.up[0]) == round);
    }
    CHECK(close(line.down[1]) == 0);
    reap(child, 0);
    puts("each its own");
    return 0;
}
