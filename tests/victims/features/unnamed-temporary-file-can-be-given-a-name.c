/* A file that never had a name (O_TMPFILE) keeps what it holds, and can be given one after the restart.
 *
 * expect: survive
 * no-rollback: the name is there already
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char path[64], room[16] = {0};
    int file = open(".", O_TMPFILE | O_RDWR, 0600);
    if (file < 0)
        LACKS("O_TMPFILE on this file system");
    CHECK(write(file, "draft", 5) == 5);
    moment("nameless");
    CHECK(write(file, " done", 5) == 5);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "result", AT_SYMLINK_FOLLOW) == 0);
    int named = open("result", O_RDONLY);
    CHECK(named >= 0 && read(named, room, sizeof room) == 10 && strcmp(room, "draft done") == 0);
    puts("it has a name");
    return 0;
}
