/* A file with several names in a folder that goes with the job would come back as several files.
 *
 * expect: refuse "hard links" "data/two"
 * run: --save-folder data
 * doctor-blind: it does not know which folders go with the job
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    CHECK(mkdir("data", 0700) == 0 && mknod("data/two", S_IFREG | 0600, 0) == 0 && link("data/two", "other") == 0);
    moment("linked");
    CHECK(unlink("other") == 0);
    puts("linked");
    return 0;
}
