/* A child that leads a session of its own still does; its children belong to it, and those made before do not.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    struct line line;
    open_line(&line);
    pid_t outer = getsid(0), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        pid_t before = fork();
        CHECK(before >= 0);
        if (before == 0)
            for (;;)
                pause();
        CHECK(setsid() == getpid());
        pid_t behind = fork();
        CHECK(behind >= 0);
        if (behind == 0)
            for (;;)
                pause();
        for (int word; read(line.down[0], &word, sizeof word) == sizeof word;) {
            CHECK(getsid(0) == getpid() && getpgrp() == getpid());
            CHECK(setsid() == -1 && errno == EPERM);
            CHECK(getsid(behind) == getpid() && getpgid(behind) == getpid());
            CHECK(getsid(before) != getpid() && getpgid(before) != getpid());
            put(line.up[1], getsid(before) == getsid(getppid()));
        }
        CHECK(kill(before, SIGKILL) == 0 && kill(behind, SIGKILL) == 0);
        reap_killed(before, SIGKILL);
        reap_killed(behind, SIGKILL);
        _exit(0);
    }
    be_parent(&line);
    for (int round = 0; round < 2; round++) {
        put(line.down[1], round);
        CHECK(get(line.up[0]) == 1);
        moment("led");
        CHECK(getsid(child) == child && (round > 0 || outer >= 0));
    }
    CHECK(close(line.down[1]) == 0);
    reap(child, 0);
    puts("sessions kept");
    return 0;
}
