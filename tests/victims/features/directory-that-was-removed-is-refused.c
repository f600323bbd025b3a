/* An open directory that has been removed is refused by name: nothing could take its place.
 *
 * expect: refuse "gone"
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    CHECK(mkdir("gone", 0755) == 0);
    int directory = open("gone", O_RDONLY | O_DIRECTORY);
    CHECK(directory >= 0 && rmdir("gone") == 0);
    moment("removed");
    struct stat now;
    CHECK(fstat(directory, &now) == 0 && S_ISDIR(now.st_mode) && close(directory) == 0);
    puts("still a directory");
    return 0;
}
