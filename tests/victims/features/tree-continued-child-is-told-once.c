/* That a stopped child was continued is told after a restart to a parent that had not asked yet, and once.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        for (;;)
            pause();
    await_call_of(child, SYS_pause);
    for (int round = 0; round < 2; round++) {
        CHECK(kill(child, SIGSTOP) == 0);
        CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        CHECK(kill(child, SIGCONT) == 0);
        await_call_of(child, SYS_pause);
        moment("continued");
        CHECK(waitpid(child, &status, WUNTRACED | WCONTINUED | WNOHANG) == child && WIFCONTINUED(status));
        CHECK(waitpid(child, &status, WUNTRACED | WCONTINUED | WNOHANG) == 0);
    }
    CHECK(kill(child, SIGKILL) == 0);
    reap_killed(child, SIGKILL);
    puts("continued");
    return 0;
}
