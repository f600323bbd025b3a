/* That a child was stopped, and by which signal, is told after a restart to a parent that had not asked yet, and once.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    const int signals[] = {SIGSTOP, SIGTSTP};
    for (int i = 0; i < 2; i++) {
        int status;
        siginfo_t info;
        sigset_t set;
        const struct timespec nothing = {0, 0};
        CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGCHLD) == 0);
        CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            /* A group whose members' parents are in another group of the session: not orphaned, so it can be stopped. */
            CHECK(setpgid(0, 0) == 0);
            for (;;)
                pause();
        }
        await_call_of(child, SYS_pause);
        CHECK(kill(child, signals[i]) == 0);
        await_state(child, 'T');
        moment("stopped");
        CHECK(sigtimedwait(&set, &info, &nothing) == SIGCHLD);
        CHECK(info.si_code == CLD_STOPPED && info.si_status == signals[i] && info.si_pid == child);
        CHECK(sigtimedwait(&set, &info, &nothing) == -1 && errno == EAGAIN);
        CHECK(waitpid(child, &status, WUNTRACED | WNOHANG) == child);
        CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == signals[i]);
        CHECK(waitpid(child, &status, WUNTRACED | WNOHANG) == 0);
        CHECK(kill(child, SIGKILL) == 0);
        reap_killed(child, SIGKILL);
        CHECK(sigtimedwait(&set, &info, &nothing) == SIGCHLD);
    }
    puts("told later");
    return 0;
}
