/* A child that a signal has ended and that has not been waited for is found with that signal.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    const int signals[] = {SIGKILL, SIGTERM, SIGUSR1, SIGPIPE, SIGRTMIN + 3};
    enum { COUNT = sizeof signals / sizeof *signals };
    pid_t children[COUNT];
    for (int i = 0; i < COUNT; i++) {
        CHECK((children[i] = fork()) >= 0);
        if (children[i] == 0)
            for (;;)
                pause();
        await_call_of(children[i], SYS_pause);
        CHECK(kill(children[i], signals[i]) == 0);
        await_state(children[i], 'Z');
    }
    moment("all");
    for (int i = 0; i < COUNT; i++) {
        siginfo_t info;
        CHECK(waitid(P_PID, children[i], &info, WEXITED | WNOWAIT) == 0);
        CHECK(info.si_code == CLD_KILLED && info.si_status == signals[i]);
        reap_killed(children[i], signals[i]);
    }
    puts("five signals");
    return 0;
}
