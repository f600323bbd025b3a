/* pause, sigsuspend, sigwaitinfo and sigtimedwait go on waiting after a restart, and end when the signal comes.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

enum { COUNT = 4 };
static volatile pid_t waiting[COUNT];
static volatile int handled[COUNT];
static _Thread_local int number;
static volatile int ended;

static void handler(int signal)
{
    (void)signal;
    handled[number]++;
}

static void begin(int own)
{
    number = own;
    waiting[own] = gettid();
}

static void end(void)
{
    __atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
}

static void *in_pause(void *unused)
{
    (void)unused;
    begin(0);
    CHECK(pause() == -1 && errno == EINTR && handled[0] == 1);
    end();
    return NULL;
}

static void *in_suspend(void *unused)
{
    sigset_t now, blocked;
    (void)unused;
    CHECK(sigemptyset(&blocked) == 0 && sigaddset(&blocked, SIGUSR1) == 0 && sigaddset(&blocked, SIGHUP) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
    begin(1);
    CHECK(sigemptyset(&now) == 0 && sigsuspend(&now) == -1 && errno == EINTR && handled[1] == 1);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0);
    CHECK(sigismember(&now, SIGUSR1) && sigismember(&now, SIGHUP) && !sigismember(&now, SIGUSR2));
    end();
    return NULL;
}

static void *in_wait(void *unused)
{
    siginfo_t info;
    sigset_t waited;
    (void)unused;
    CHECK(sigemptyset(&waited) == 0 && sigaddset(&waited, SIGUSR1) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &waited, NULL) == 0);
    begin(2);
    CHECK(sigwaitinfo(&waited, &info) == SIGUSR1 && info.si_pid == getpid());
    end();
    return NULL;
}

static void *in_timed_wait(void *unused)
{
    siginfo_t info;
    sigset_t waited;
    const struct timespec long_time = {3000, 0};
    (void)unused;
    CHECK(sigemptyset(&waited) == 0 && sigaddset(&waited, SIGUSR1) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &waited, NULL) == 0);
    begin(3);
    CHECK(sigtimedwait(&waited, &info, &long_time) == SIGUSR1);
    end();
    return NULL;
}

int main(void)
{
    static void *(*const waiters[COUNT])(void *) = {in_pause, in_suspend, in_wait, in_timed_wait};
    static const long calls[COUNT] = {SYS_pause, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_sigtimedwait};
    pthread_t threads[COUNT];
    CHECK(signal(SIGUSR1, handler) != SIG_ERR);
    for (int i = 0; i < COUNT; i++)
        CHECK(pthread_create(&threads[i], NULL, waiters[i], NULL) == 0);
    for (int life = 0; life < 2; life++) {
        for (int i = 0; i < COUNT; i++) {
            await((volatile int *)&waiting[i]);
            await_call(waiting[i], calls[i]);
        }
        CHECK(ended == 0);
        if (life == 0)
            moment("waiting");
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(pthread_kill(threads[i], SIGUSR1) == 0 && pthread_join(threads[i], NULL) == 0);
    CHECK(ended == COUNT && handled[2] == 0 && handled[3] == 0);
    puts("waited to the end");
    return 0;
}
