/* A file that is open under a name which it has no more, but has another one in the same directory, is found by that.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    struct stat named, held;
    int file = open("temporary", O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && write(file, "one ", 4) == 4);
    CHECK(link("temporary", "last") == 0 && unlink("temporary") == 0);
    moment("linked");
    CHECK(write(file, "two", 3) == 3);
    CHECK(stat("last", &named) == 0 && fstat(file, &held) == 0 && named.st_ino == held.st_ino && held.st_size == 7);
    puts("done");
    return 0;
}
