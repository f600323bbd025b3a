/* Parents that wait for a child in wait4, waitid, sigwaitinfo or sigsuspend go on waiting after a restart, and are told
 * when it ends.
 *
 * expect: survive
 */
#include "family.h"

static void on_news(int signal)
{
    (void)signal;
}

/* A process that makes a child, which ends with `way` when the line is closed, and waits for it in one way. */
static void wait_in(int way, struct line *line)
{
    sigset_t set, none;
    siginfo_t info;
    be_child(line);
    CHECK(sigemptyset(&none) == 0 && sigemptyset(&set) == 0 && sigaddset(&set, SIGCHLD) == 0);
    CHECK(signal(SIGCHLD, on_news) != SIG_ERR);
    if (way >= 2)
        CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        await_silence(line->down[0]);
        _exit(way);
    }
    if (way == 1)
        CHECK(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == child && info.si_status == way);
    if (way == 2)
        CHECK(sigwaitinfo(&set, &info) == SIGCHLD && info.si_pid == child && info.si_status == way);
    if (way == 3)
        CHECK(sigsuspend(&none) == -1 && errno == EINTR);
    reap(child, way);
    _exit(10 + way);
}

int main(void)
{
    static const long calls[] = {SYS_wait4, SYS_waitid, SYS_rt_sigtimedwait, SYS_rt_sigsuspend};
    struct line line;
    pid_t waiters[4];
    open_line(&line);
    for (int way = 0; way < 4; way++) {
        CHECK((waiters[way] = fork()) >= 0);
        if (waiters[way] == 0)
            wait_in(way, &line);
    }
    be_parent(&line);
    for (int round = 0; round < 2; round++) {
        for (int way = 0; way < 4; way++)
            await_call_of(waiters[way], calls[way]);
        moment("all wait");
        for (int way = 0; way < 4; way++)
            CHECK(waitpid(waiters[way], NULL, WNOHANG) == 0);
    }
    CHECK(close(line.down[1]) == 0);
    for (int way = 0; way < 4; way++)
        reap(waiters[way], 10 + way);
    puts("all were told");
    return 0;
}
