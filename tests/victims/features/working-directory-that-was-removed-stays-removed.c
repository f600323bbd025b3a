/* A process whose working directory has been removed goes on in one that has no name: nothing is found or made in it, and
 * its permissions are what they were.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char here[512];
    int above = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(above >= 0 && mkdir("gone", 0750) == 0 && chdir("gone") == 0 && rmdir("../gone") == 0);
    for (int life = 0; life < 2; life++) {
        moment("removed");
        struct stat now, named;
        CHECK(getcwd(here, sizeof here) == NULL && errno == ENOENT);
        CHECK(stat(".", &now) == 0 && (now.st_mode & 07777) == 0750);
        CHECK(open("file", O_CREAT | O_WRONLY, 0600) == -1 && errno == ENOENT);
        CHECK(fstatat(above, "gone", &named, 0) == -1 && errno == ENOENT);
    }
    CHECK(fchdir(above) == 0 && getcwd(here, sizeof here) != NULL);
    puts("back again");
    return 0;
}
