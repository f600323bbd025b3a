/* A timer of the C library that calls a function in a thread goes on calling it, and new ones can be made.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>

static _Atomic int calls[2];

static void call(union sigval value)
{
    calls[value.sival_int]++;
}

static timer_t make(int value)
{
    struct sigevent event;
    timer_t timer;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = call;
    event.sigev_value.sival_int = value;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec time = {{0, 5000000}, {0, 1000}};
    CHECK(timer_settime(timer, 0, &time, NULL) == 0);
    return timer;
}

static void await_calls_of(int which)
{
    struct timespec pause = {0, 1000000};
    for (int until = calls[which] + 3; calls[which] < until;)
        nanosleep(&pause, NULL);
}

int main(void)
{
    timer_t first = make(0);
    await_calls_of(0);
    moment("calls come");
    await_calls_of(0);
    timer_t second = make(1);
    await_calls_of(1);
    moment("of both");
    await_calls_of(0);
    await_calls_of(1);
    CHECK(timer_delete(first) == 0 && timer_delete(second) == 0);
    puts("library timers: called");
    return 0;
}
