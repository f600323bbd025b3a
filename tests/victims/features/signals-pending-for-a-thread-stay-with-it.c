/* A signal that is pending for one thread is delivered to that thread, one pending for the process to any that takes it.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>

static volatile int ready, go;
static volatile pid_t got[65];

static void note(int signal)
{
    CHECK(got[signal] == 0);
    got[signal] = gettid();
}

static void *thread(void *id)
{
    sigset_t pending, none;
    *(pid_t *)id = gettid();
    ready = 1;
    await(&go);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1 && sigismember(&pending, SIGRTMIN + 2) == 1);
    CHECK(sigemptyset(&none) == 0 && pthread_sigmask(SIG_SETMASK, &none, NULL) == 0);
    return NULL;
}

int main(void)
{
    pthread_t other;
    pid_t id = 0;
    sigset_t blocked, pending;
    CHECK(signal(SIGUSR1, note) != SIG_ERR && signal(SIGUSR2, note) != SIG_ERR && signal(SIGRTMIN + 2, note) != SIG_ERR);
    CHECK(sigfillset(&blocked) == 0 && pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
    CHECK(pthread_create(&other, NULL, thread, &id) == 0);
    await(&ready);
    CHECK(pthread_kill(other, SIGUSR1) == 0 && pthread_kill(other, SIGRTMIN + 2) == 0 && kill(getpid(), SIGUSR2) == 0);
    moment("pending");
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 0 && sigismember(&pending, SIGUSR2) == 1);
    go = 1;
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(got[SIGUSR1] == id && got[SIGRTMIN + 2] == id && got[SIGUSR2] == id);
    puts("delivered where they belong");
    return 0;
}
