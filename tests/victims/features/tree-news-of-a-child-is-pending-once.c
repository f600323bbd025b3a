/* A SIGCHLD that waits is there after a restart, once, with the child's id and status; one that was taken is not.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    const struct timespec nothing = {0, 0};
    sigset_t set;
    siginfo_t info;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGCHLD) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    pid_t first = fork();
    CHECK(first >= 0);
    if (first == 0)
        _exit(3);
    await_state(first, 'Z');
    moment("told");
    CHECK(sigtimedwait(&set, &info, &nothing) == SIGCHLD);
    CHECK(info.si_pid == first && info.si_status == 3 && info.si_code == CLD_EXITED);
    moment("taken");
    CHECK(sigtimedwait(&set, &info, &nothing) == -1 && errno == EAGAIN);
    reap(first, 3);
    pid_t second = fork();
    CHECK(second >= 0);
    if (second == 0)
        _exit(4);
    await_state(second, 'Z');
    reap(second, 4);
    /* The news outlives the child. */
    moment("reaped");
    CHECK(sigtimedwait(&set, &info, &nothing) == SIGCHLD && info.si_pid == second && info.si_status == 4);
    CHECK(sigtimedwait(&set, &info, &nothing) == -1 && errno == EAGAIN);
    puts("told once each");
    return 0;
}
