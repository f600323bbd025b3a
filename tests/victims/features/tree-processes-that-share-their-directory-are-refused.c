/* Two processes with one working directory between them (CLONE_FS) are refused.
 *
 * expect: refuse "share" "working directory"
 */
#include "family.h"

int main(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t made = syscall(SYS_clone, CLONE_FS | SIGCHLD, NULL, NULL, NULL, NULL);
    CHECK(made >= 0);
    if (made == 0) {
        CHECK(close(ends[1]) == 0);
        await_silence(ends[0]);
        CHECK(chdir("/") == 0);
        _exit(4);
    }
    moment("shared");
    CHECK(close(ends[1]) == 0);
    reap(made, 4);
    char folder[256];
    CHECK(getcwd(folder, sizeof folder) == folder && strcmp(folder, "/") == 0);
    puts("ended");
    return 0;
}
