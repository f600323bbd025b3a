/* A process group whose leader has ended goes on under its id, can be signalled and joined.
 *
 * expect: survive
 */
#include "family.h"

static volatile sig_atomic_t heard;

static void on_signal(int signal)
{
    (void)signal;
    heard = 1;
}

static pid_t member(pid_t group, struct line *line)
{
    pid_t child;
    open_line(line);
    CHECK((child = fork()) >= 0);
    if (child == 0) {
        be_child(line);
        CHECK(setpgid(0, group) == 0);
        put(line->up[1], getpgrp());
        while (!heard)
            usleep(200);
        CHECK(getpgrp() == group);
        put(line->up[1], 7);
        _exit(0);
    }
    CHECK(close(line->down[0]) == 0 && close(line->up[1]) == 0);
    CHECK(get(line->up[0]) == group);
    return child;
}

int main(void)
{
    struct line lines[3], first;
    pid_t members[3];
    CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
    open_line(&first);
    pid_t leader = fork();
    CHECK(leader >= 0);
    if (leader == 0) {
        be_child(&first);
        CHECK(setpgid(0, 0) == 0);
        put(first.up[1], 1);
        await_silence(first.down[0]);
        _exit(2);
    }
    be_parent(&first);
    CHECK(get(first.up[0]) == 1);
    members[0] = member(leader, &lines[0]);
    members[1] = member(leader, &lines[1]);
    /* The members hold copies of the line to the leader: end it by a signal. */
    CHECK(kill(leader, SIGKILL) == 0);
    reap_killed(leader, SIGKILL);
    moment("leaderless");
    CHECK(getpgid(members[0]) == leader && getpgid(members[1]) == leader);
    members[2] = member(leader, &lines[2]);
    moment("joined");
    CHECK(killpg(leader, SIGUSR1) == 0 && !heard);
    for (int i = 0; i < 3; i++) {
        CHECK(get(lines[i].up[0]) == 7);
        reap(members[i], 0);
    }
    CHECK(killpg(leader, 0) == -1 && errno == ESRCH);
    puts("the group heard it");
    return 0;
}
