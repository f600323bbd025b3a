/* A file in whose place another was put while it was open is read on; the new one under its name is left alone.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char room[16] = {0};
    int old = open("input", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(old >= 0 && write(old, "old text", 8) == 8 && lseek(old, 0, SEEK_SET) == 0 && read(old, room, 4) == 4);
    int new = open("input.new", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(new >= 0 && write(new, "new", 3) == 3 && close(new) == 0 && rename("input.new", "input") == 0);
    moment("replaced");
    memset(room, 0, sizeof room);
    CHECK(read(old, room, sizeof room) == 4 && strcmp(room, "text") == 0);
    new = open("input", O_RDONLY);
    memset(room, 0, sizeof room);
    CHECK(new >= 0 && read(new, room, sizeof room) == 3 && strcmp(room, "new") == 0);
    puts("old and new");
    return 0;
}
