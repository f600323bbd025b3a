/* A file of /proc about a process that has ended and been waited for tells nothing, and is soon closed as a rule.
 *
 * expect: refuse "/proc/" "has ended since"
 */
#include "family.h"
#include "proc_files.h"

int main(void)
{
    char path[64], byte;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(5);
    await_state(child, 'Z');
    snprintf(path, sizeof path, "/proc/%d/stat", child);
    int file = opened(path, O_RDONLY);
    reap(child, 5);
    moment("ended");
    CHECK(read(file, &byte, 1) == -1 && errno == ESRCH);
    puts("it has ended");
    return 0;
}
