/* A child that leads a session of its own still does; its children belong to it, and those made before do not, also if
 * another thread has made them.
 *
 * expect: survive
 */
#include "family.h"
#include <pthread.h>

static volatile pid_t before;

static void *make_before(void *nothing)
{
    pid_t made = fork();
    CHECK(made >= 0);
    before = made;
    // Child and thread stay: the kernel has a list of children for each thread.
    for (;;)
        pause();
    return nothing;
}

int main(void)
{
    struct line line;
    open_line(&line);
    pid_t outer = getsid(0), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        pthread_t maker;
        CHECK(pthread_create(&maker, NULL, make_before, NULL) == 0);
        while (before == 0)
            usleep(200);
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
