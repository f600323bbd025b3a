/* The disposition of every signal is kept: handler with its flags and its mask, ignored, or default.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>

static void one(int signal)
{
    (void)signal;
}

static void three(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
}

static int is_ours(int signal)
{
    return signal != SIGKILL && signal != SIGSTOP && (signal < 32 || (signal >= SIGRTMIN && signal <= SIGRTMAX));
}

int main(void)
{
    struct sigaction set[65], got;
    static const int flags[] = {0, SA_RESTART, SA_NODEFER | SA_RESETHAND, SA_ONSTACK, SA_RESTART | SA_NOCLDSTOP};
    memset(set, 0, sizeof set);
    for (int signal = 1; signal < 65; signal++) {
        struct sigaction *action = &set[signal];
        if (!is_ours(signal))
            continue;
        if (signal % 4 == 0) {
            action->sa_handler = SIG_IGN;
        } else if (signal % 4 == 1) {
            action->sa_handler = SIG_DFL;
        } else if (signal % 4 == 2) {
            action->sa_handler = one;
            action->sa_flags = flags[signal % 5];
        } else {
            action->sa_sigaction = three;
            action->sa_flags = flags[signal % 5] | SA_SIGINFO;
        }
        sigaddset(&action->sa_mask, signal % 31 + 1);
        CHECK(sigaction(signal, action, NULL) == 0);
    }
    moment("disposed");
    for (int signal = 1; signal < 65; signal++) {
        if (!is_ours(signal))
            continue;
        CHECK(sigaction(signal, NULL, &got) == 0);
        CHECK(got.sa_handler == set[signal].sa_handler);
        CHECK(signal % 4 < 2 || (got.sa_flags & ~0x04000000) == set[signal].sa_flags);
        /* The mask of a signal without a handler has no effect. */
        for (int member = 1; signal % 4 >= 2 && member < 32; member++)
            if (member != SIGKILL && member != SIGSTOP)
                CHECK(sigismember(&got.sa_mask, member) == sigismember(&set[signal].sa_mask, member));
    }
    puts("disposed as before");
    return 0;
}
