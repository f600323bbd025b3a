/* An orphan whose new parent does not belong to its session, takes orphans no longer, and is no parent of the session's leader
 * either, cannot get that session again: the checkpoint is refused by name.
 *
 * expect: refuse "session" "parent does not belong"
 * doctor-blind: whether a process takes orphans only it itself can tell
 */
#include "family.h"

int main(void)
{
    struct line line;
    open_line(&line);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    pid_t between = fork();
    CHECK(between >= 0);
    if (between == 0) {
        pid_t leader = fork();
        CHECK(leader >= 0);
        if (leader == 0) {
            be_child(&line);
            CHECK(setsid() == getpid());
            pid_t parent = fork();
            CHECK(parent >= 0);
            if (parent == 0) {
                pid_t own = getpid();
                if (fork() == 0) {
                    while (getppid() == own)
                        usleep(200);
                    put(line.up[1], getpid());
                    await_silence(line.down[0]);
                    _exit(3);
                }
                _exit(0);
            }
            reap(parent, 0);
            await_silence(line.down[0]);
            _exit(0);
        }
        be_child(&line);
        reap(leader, 0);
        _exit(0);
    }
    be_parent(&line);
    pid_t orphan = get(line.up[0]);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
    moment("adopted");
    CHECK(close(line.down[1]) == 0);
    reap(orphan, 3);
    reap(between, 0);
    puts("adopted");
    return 0;
}
