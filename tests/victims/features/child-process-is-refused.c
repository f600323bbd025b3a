/* A program with a child process that stays is refused by name.
 *
 * expect: refuse "child process"
 */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

int main(void)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execlp("sleep", "sleep", "60", NULL);
        _exit(127);
    }
    moment("with a child");
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);
    puts("alone again");
    return 0;
}
