/* A directory of /proc about a process, which programs list to close what they have open, is waited for: it could not be found
 * again.
 *
 * expect: refuse "/proc/" "close it soon"
 */
#include "check.h"
#include <dirent.h>

int main(void)
{
    DIR *own = opendir("/proc/self/fd");
    CHECK(own != NULL && readdir(own) != NULL);
    moment("listing");
    CHECK(readdir(own) != NULL && closedir(own) == 0);
    puts("listed");
    return 0;
}
