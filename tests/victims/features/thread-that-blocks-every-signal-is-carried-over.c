/* A thread that blocks every signal is carried over, with its mask.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>

static volatile int ready, go;

static void *thread(void *unused)
{
    sigset_t all, now;
    (void)unused;
    CHECK(sigfillset(&all) == 0 && pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    ready = 1;
    await(&go);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0);
    for (int signal = 1; signal < 65; signal++)
        if (signal != SIGKILL && signal != SIGSTOP && (signal < 32 || signal >= SIGRTMIN))
            CHECK(sigismember(&now, signal) == 1);
    CHECK(raise(SIGTERM) == 0);
    moment("with a signal pending");
    CHECK(sigpending(&now) == 0 && sigismember(&now, SIGTERM) == 1);
    return NULL;
}

int main(void)
{
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    await(&ready);
    moment("blocked");
    go = 1;
    CHECK(pthread_join(other, NULL) == 0);
    puts("blocked everything");
    return 0;
}
