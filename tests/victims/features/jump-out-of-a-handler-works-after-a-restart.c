/* A long jump out of a signal handler, to a place that was marked before the checkpoint, works after it.
 *
 * expect: survive
 */
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;

static void handler(int signal)
{
    moment("in the handler");
    siglongjmp(back, signal);
}

int main(void)
{
    sigset_t now;
    CHECK(signal(SIGUSR1, handler) != SIG_ERR);
    volatile int turn = 0;
    int by = sigsetjmp(back, 1);
    CHECK(by == (turn == 0 ? 0 : SIGUSR1));
    CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && !sigismember(&now, SIGUSR1));
    moment("marked");
    if (turn++ < 2)
        raise(SIGUSR1);
    puts("jumped twice");
    return 0;
}
