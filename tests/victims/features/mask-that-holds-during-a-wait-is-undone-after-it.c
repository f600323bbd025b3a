/* ppoll, pselect and epoll_pwait with a mask of their own let the signal in after a restart, and the old mask returns.
 *
 * expect: survive
 */
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>

enum { COUNT = 3 };
static volatile pid_t waiting[COUNT];
static volatile int handled;
static int ends[2];
static sigset_t none;

static void handler(int signal)
{
    (void)signal;
    handled++;
}

static int in_ppoll(void)
{
    struct pollfd watched = {.fd = ends[0], .events = POLLIN};
    return ppoll(&watched, 1, NULL, &none);
}

static int in_pselect(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    return pselect(ends[0] + 1, &set, NULL, NULL, NULL, &none);
}

static int in_epoll(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int instance = epoll_create1(0);
    CHECK(instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, ends[0], &event) == 0);
    return epoll_pwait(instance, &event, 1, -1, &none);
}

static int (*const waits[COUNT])(void) = {in_ppoll, in_pselect, in_epoll};

static void *thread(void *number)
{
    sigset_t mask;
    waiting[(long)number] = gettid();
    CHECK(waits[(long)number]() == -1 && errno == EINTR);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR1) && sigismember(&mask, SIGHUP));
    CHECK(!sigismember(&mask, SIGUSR2));
    return NULL;
}

int main(void)
{
    static const long calls[COUNT] = {SYS_ppoll, SYS_pselect6, SYS_epoll_pwait};
    pthread_t threads[COUNT];
    sigset_t blocked;
    CHECK(pipe(ends) == 0 && sigemptyset(&none) == 0 && signal(SIGUSR1, handler) != SIG_ERR);
    CHECK(sigemptyset(&blocked) == 0 && sigaddset(&blocked, SIGUSR1) == 0 && sigaddset(&blocked, SIGHUP) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
    for (long i = 0; i < COUNT; i++) {
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
        await((volatile int *)&waiting[i]);
        await_call(waiting[i], calls[i]);
    }
    moment("waiting");
    for (int i = 0; i < COUNT; i++) {
        CHECK(handled == i && pthread_kill(threads[i], SIGUSR1) == 0 && pthread_join(threads[i], NULL) == 0);
    }
    CHECK(handled == COUNT);
    puts("masks restored");
    return 0;
}
