/* A file of /proc about one descriptor of the program is waited for.
 *
 * expect: refuse "/fdinfo/" "close it soon"
 */
#include "proc_files.h"

int main(void)
{
    int file = opened("/proc/self/fdinfo/0", O_RDONLY);
    moment("open");
    CHECK(number_behind(text_of(file), "pos:") == 0);
    puts("told");
    return 0;
}
