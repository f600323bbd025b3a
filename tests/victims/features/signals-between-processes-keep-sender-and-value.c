/* Signals that one process has sent another and that wait there keep their order, sender and value.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    struct line line;
    sigset_t set;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGRTMIN) == 0 && sigaddset(&set, SIGUSR1) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    open_line(&line);
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        for (int word; read(line.down[0], &word, sizeof word) == sizeof word;) {
            for (int value = 0; value < 4; value++) {
                siginfo_t info;
                CHECK(sigwaitinfo(&set, &info) == (value == 0 ? SIGUSR1 : SIGRTMIN));
                CHECK(info.si_pid == parent && info.si_uid == getuid());
                CHECK(value == 0 ? info.si_code == SI_USER : info.si_value.sival_int == 10 * word + value);
            }
            CHECK(sigqueue(parent, SIGRTMIN, (union sigval){.sival_int = word}) == 0);
            put(line.up[1], word);
        }
        _exit(0);
    }
    be_parent(&line);
    for (int round = 0; round < 3; round++) {
        siginfo_t info;
        for (int value = 1; value < 4; value++)
            CHECK(sigqueue(child, SIGRTMIN, (union sigval){.sival_int = 10 * round + value}) == 0);
        CHECK(kill(child, SIGUSR1) == 0);
        moment("sent");
        put(line.down[1], round);
        CHECK(get(line.up[0]) == round);
        moment("answered");
        CHECK(sigwaitinfo(&set, &info) == SIGRTMIN && info.si_pid == child && info.si_value.sival_int == round);
    }
    CHECK(close(line.down[1]) == 0);
    reap(child, 0);
    puts("in order");
    return 0;
}
