/* A signal descriptor tells of the end of a child after a restart, and each process has its own signals in it.
 *
 * expect: survive
 */
#include "family.h"
#include <sys/signalfd.h>

int main(void)
{
    sigset_t set;
    struct signalfd_siginfo info;
    int gates[2][2];
    pid_t children[2];
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGCHLD) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int news = signalfd(-1, &set, SFD_NONBLOCK);
    CHECK(news >= 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pipe2(gates[i], O_CLOEXEC) == 0);
        CHECK((children[i] = fork()) >= 0);
        if (children[i] == 0) {
            for (int other = 0; other <= i; other++)
                CHECK(close(gates[other][1]) == 0);
            await_silence(gates[i][0]);
            CHECK(read(news, &info, sizeof info) == -1 && errno == EAGAIN);
            _exit(i);
        }
    }
    for (int i = 0; i < 2; i++) {
        moment("quiet");
        CHECK(read(news, &info, sizeof info) == -1 && errno == EAGAIN);
        CHECK(close(gates[i][1]) == 0);
        await_state(children[i], 'Z');
        moment("told");
        CHECK(read(news, &info, sizeof info) == sizeof info && (pid_t)info.ssi_pid == children[i]);
        CHECK((int)info.ssi_status == i);
        reap(children[i], i);
    }
    puts("by descriptor");
    return 0;
}
