/* A process that has asked for a signal at the end of its parent gets it after a restart.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    struct line line;
    int alive[2];
    sigset_t set;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGUSR1) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    open_line(&line);
    CHECK(pipe(alive) == 0);
    pid_t between = fork();
    CHECK(between >= 0);
    if (between == 0) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            siginfo_t info;
            CHECK(close(alive[0]) == 0);
            CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0);
            put(line.up[1], 1);
            CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
            int asked;
            CHECK(prctl(PR_GET_PDEATHSIG, &asked) == 0 && asked == SIGUSR1);
            put(line.up[1], 2);
            _exit(0);
        }
        be_child(&line);
        await_silence(line.down[0]);
        _exit(3);
    }
    be_parent(&line);
    CHECK(get(line.up[0]) == 1);
    moment("asked for");
    CHECK(close(alive[1]) == 0);
    CHECK(close(line.down[1]) == 0);
    /* The grandchild holds a copy of the pipe: end the parent as well by a signal. */
    CHECK(kill(between, SIGKILL) == 0);
    reap_killed(between, SIGKILL);
    CHECK(get(line.up[0]) == 2);
    await_silence(alive[0]);
    puts("told");
    return 0;
}
