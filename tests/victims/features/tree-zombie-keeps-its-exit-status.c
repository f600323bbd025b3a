/* A child that has ended and not been waited for is found with its exit status.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    static const int codes[] = {0, 1, 77, 255};
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        CHECK((children[i] = fork()) >= 0);
        if (children[i] == 0)
            _exit(codes[i]);
        await_state(children[i], 'Z');
    }
    moment("all");
    for (int i = 3; i >= 0; i--) {
        siginfo_t info;
        CHECK(state_of(children[i]) == 'Z' && kill(children[i], SIGKILL) == 0);
        CHECK(waitid(P_PID, children[i], &info, WEXITED | WNOWAIT) == 0);
        CHECK(info.si_code == CLD_EXITED && info.si_status == codes[i] && info.si_pid == children[i]);
        CHECK(info.si_uid == getuid());
        reap(children[i], codes[i]);
        moment("one");
    }
    CHECK(wait(NULL) == -1 && errno == ECHILD);
    puts("four statuses");
    return 0;
}
