/* A timer that tells one thread goes on telling that one; one that tells a thread that has ended tells nobody.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static _Atomic int ready, stop, ended_timer = -1;
static __thread volatile sig_atomic_t told;

static int make(void)
{
    struct sigevent event;
    int id;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event.sigev_notify_thread_id = gettid();
    CHECK(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id) == 0);
    return id;
}

static void tell(int signal)
{
    (void)signal;
    told++;
}

static void *listen_to_it(void *nothing)
{
    struct itimerspec time = {{0, 3000000}, {0, 1000}};
    struct timespec pause = {0, 1000000};
    int id = make();
    CHECK(syscall(SYS_timer_settime, id, 0, &time, NULL) == 0);
    while (told < 2)
        nanosleep(&pause, NULL);
    ready++;
    while (!stop)
        nanosleep(&pause, NULL);
    for (int until = told + 3; told < until;)
        nanosleep(&pause, NULL);
    return nothing;
}

static void *make_and_end(void *nothing)
{
    ended_timer = make();
    return nothing;
}

int main(void)
{
    pthread_t threads[3], ended;
    CHECK(signal(SIGUSR1, tell) != SIG_ERR);
    CHECK(pthread_create(&ended, NULL, make_and_end, NULL) == 0 && pthread_join(ended, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, listen_to_it, NULL) == 0);
    struct timespec pause = {0, 1000000};
    while (ready < 3)
        nanosleep(&pause, NULL);
    moment("all told");
    stop = 1;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    struct itimerspec soon = {{0, 0}, {0, 1}}, left;
    CHECK(syscall(SYS_timer_settime, ended_timer, 0, &soon, NULL) == 0);
    CHECK(syscall(SYS_timer_gettime, ended_timer, &left) == 0);
    CHECK(told == 0);
    puts("timers of threads: told");
    return 0;
}
