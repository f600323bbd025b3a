/* Working directory and umask are as the program set them.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char before[4096], after[4096];
    struct stat made;
    CHECK(mkdir("below", 0755) == 0 && chdir("below") == 0 && getcwd(before, sizeof before) != NULL);
    umask(0137);
    moment("below");
    CHECK(getcwd(after, sizeof after) != NULL && strcmp(before, after) == 0);
    int file = open("made", O_WRONLY | O_CREAT, 0777);
    CHECK(file >= 0 && fstat(file, &made) == 0 && (made.st_mode & 0777) == 0640 && close(file) == 0);
    CHECK(umask(022) == 0137 && chdir("..") == 0 && access("below/made", F_OK) == 0);
    puts("below");
    return 0;
}
