/* A process that another one of the job traces is refused.
 *
 * expect: refuse "traces"
 */
#include "family.h"
#include <sys/ptrace.h>

int main(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(ends[1]) == 0);
        await_silence(ends[0]);
        _exit(0);
    }
    CHECK(ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0);
    moment("traced");
    CHECK(close(ends[1]) == 0);
    reap(child, 0);
    puts("traced");
    return 0;
}
