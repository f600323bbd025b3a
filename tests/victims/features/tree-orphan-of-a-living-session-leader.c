/* An orphan in the session of a leader that lives, and is not its parent, keeps that session.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    struct line line;
    open_line(&line);
    pid_t leader = fork();
    CHECK(leader >= 0);
    if (leader == 0) {
        be_child(&line);
        CHECK(setsid() == getpid());
        pid_t leading = getpid(), between = fork();
        CHECK(between >= 0);
        if (between == 0) {
            pid_t own = getpid();
            if (fork() == 0) {
                while (getppid() == own)
                    usleep(200);
                put(line.up[1], getpid());
                await_silence(line.down[0]);
                CHECK(getsid(0) == leading && getppid() != leading);
                _exit(0);
            }
            _exit(0);
        }
        reap(between, 0);
        await_silence(line.down[0]);
        CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
        _exit(5);
    }
    be_parent(&line);
    pid_t orphan = get(line.up[0]);
    for (int round = 0; round < 2; round++) {
        moment("there");
        CHECK(getsid(orphan) == leader && getsid(leader) == leader);
    }
    CHECK(close(line.down[1]) == 0);
    reap(leader, 5);
    await_silence(line.up[0]);
    puts("session kept");
    return 0;
}
