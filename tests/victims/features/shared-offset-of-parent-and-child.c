/* Parent and child that share an open file share its offset and its flags after a restart, too.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    struct line line;
    char text[64];
    int file = open("shared", O_RDWR | O_CREAT | O_EXCL, 0644), own = open("shared", O_RDONLY);
    CHECK(file >= 0 && own >= 0);
    CHECK(write(file, "abcdefghijklmnopqrstuvwxyz", 26) == 26 && lseek(file, 0, SEEK_SET) == 0);
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        for (int bytes; read(line.down[0], &bytes, sizeof bytes) == sizeof bytes;) {
            CHECK(read(file, text, bytes) == bytes);
            put(line.up[1], text[bytes - 1]);
        }
        CHECK((fcntl(file, F_GETFL) & O_APPEND) != 0);
        CHECK(write(file, "!", 1) == 1);
        _exit(0);
    }
    be_parent(&line);
    for (int round = 0; round < 3; round++) {
        put(line.down[1], 3);
        CHECK(get(line.up[0]) == 'a' + 4 * round + 2);
        moment("read");
        CHECK(lseek(file, 0, SEEK_CUR) == 4 * round + 3);
        CHECK(read(file, text, 1) == 1 && text[0] == 'a' + 4 * round + 3);
        CHECK(lseek(own, 0, SEEK_CUR) == 0);
    }
    CHECK(fcntl(file, F_SETFL, O_APPEND) == 0);
    moment("appends");
    CHECK(close(line.down[1]) == 0);
    reap(child, 0);
    CHECK(lseek(file, 0, SEEK_CUR) == 27 && write(file, "?", 1) == 1);
    puts("one offset");
    return 0;
}
