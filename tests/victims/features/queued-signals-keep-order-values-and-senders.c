/* Blocked real-time signals wait in their order with their values; one that was sent twice as a standard signal is one.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>

enum { COUNT = 30 };

int main(void)
{
    sigset_t blocked;
    siginfo_t info;
    const struct timespec at_once = {0, 0};
    CHECK(sigfillset(&blocked) == 0 && sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(sigqueue(getpid(), SIGRTMIN + i % 3, (union sigval){.sival_ptr = (void *)(0x100000000 + i)}) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGUSR1) == 0 && raise(SIGUSR2) == 0);
    for (int life = 0; life < 2; life++) {
        moment("queued");
        for (int i = life * COUNT / 2; i < (life + 1) * COUNT / 2; i++) {
            /* The lowest number first, each in the order of sending. */
            int kind = i / (COUNT / 3), turn = i % (COUNT / 3) * 3 + kind;
            CHECK(sigtimedwait(&(sigset_t){{1ul << (SIGRTMIN + kind - 1)}}, &info, &at_once) == SIGRTMIN + kind);
            CHECK(info.si_code == SI_QUEUE && info.si_value.sival_ptr == (void *)(0x100000000 + turn));
            CHECK(info.si_pid == getpid() && info.si_uid == getuid());
        }
    }
    CHECK(sigtimedwait(&blocked, &info, &at_once) == SIGUSR2 && info.si_pid == getpid());
    CHECK(sigtimedwait(&blocked, &info, &at_once) == SIGUSR1 && info.si_code == SI_USER && info.si_pid == getpid());
    CHECK(sigtimedwait(&blocked, &info, &at_once) == -1 && errno == EAGAIN);
    puts("in order");
    return 0;
}
