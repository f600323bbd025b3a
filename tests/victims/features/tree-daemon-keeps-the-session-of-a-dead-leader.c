/* A daemon in a session whose leader has ended (fork, setsid, fork) keeps that session and serves on.
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
        CHECK(setsid() == getpid());
        pid_t leading = getpid();
        for (int twin = 0; twin < 2; twin++) {
            if (fork() == 0) {
                int word;
                be_child(&line);
                while (getppid() == leading)
                    usleep(200);
                put(line.up[1], getpid());
                while (read(line.down[0], &word, sizeof word) == sizeof word) {
                    CHECK(getsid(0) == leading && getpgrp() == leading);
                    put(line.up[1], word + 1);
                }
                _exit(0);
            }
        }
        _exit(0);
    }
    be_parent(&line);
    reap(leader, 0);
    pid_t daemons[] = {get(line.up[0]), get(line.up[0])};
    for (int round = 0; round < 2; round++) {
        moment("served");
        CHECK(getsid(daemons[0]) == leader && getsid(daemons[1]) == leader && getpgid(daemons[0]) == leader);
        put(line.down[1], round);
        CHECK(get(line.up[0]) == round + 1);
    }
    CHECK(close(line.down[1]) == 0);
    await_silence(line.up[0]);
    puts("served");
    return 0;
}
