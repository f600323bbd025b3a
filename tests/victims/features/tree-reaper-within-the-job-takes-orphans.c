/* A process that takes orphans (PR_SET_CHILD_SUBREAPER) keeps those it has, also in a session whose leader has ended, and
 * takes new ones.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    struct line line, other;
    int status;
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    open_line(&line);
    open_line(&other);
    pid_t between = fork();
    CHECK(between >= 0);
    if (between == 0) {
        CHECK(setsid() == getpid());
        for (int i = 0; i < 2; i++)
            if (fork() == 0) {
                be_child(&line);
                be_child(&other);
                while (getppid() == between || getppid() == getsid(0))
                    usleep(200);
                put(line.up[1], getpid());
                if (i == 1) {
                    /* Makes an orphan of its own after the restart. */
                    CHECK(get(other.down[0]) == 1);
                    if (fork() != 0)
                        _exit(20);
                }
                await_silence(line.down[0]);
                _exit(i == 1 ? 22 : 21);
            }
        _exit(0);
    }
    be_parent(&line);
    be_parent(&other);
    reap(between, 0);
    pid_t orphans[] = {get(line.up[0]), get(line.up[0])};
    moment("adopted");
    CHECK(getsid(orphans[0]) == between && getsid(orphans[1]) == between);
    put(other.down[1], 1);
    pid_t gone = wait(&status);
    CHECK((gone == orphans[0] || gone == orphans[1]) && WIFEXITED(status) && WEXITSTATUS(status) == 20);
    moment("one has gone");
    CHECK(close(line.down[1]) == 0);
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        CHECK(wait(&status) > 0 && WIFEXITED(status));
        sum += WEXITSTATUS(status);
    }
    CHECK(sum == 43 && wait(&status) == -1 && errno == ECHILD);
    puts("all taken");
    return 0;
}
