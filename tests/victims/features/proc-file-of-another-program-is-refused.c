/* A file of /proc about a process that is not part of the program could not be found again.
 *
 * expect: refuse "/stat" "not part of the program"
 */
#include "proc_files.h"

int main(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", getppid());
    int file = opened(path, O_RDONLY);
    moment("open");
    CHECK(atol(text_of(file)) == getppid());
    puts("told");
    return 0;
}
