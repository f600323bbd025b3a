/* The alternate signal stack of each thread is kept, also while a handler runs on it.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>

static char first[65536], second[65536];
static volatile int handled;

static void handler(int signal)
{
    char here;
    stack_t now;
    (void)signal;
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_ONSTACK);
    CHECK(&here > (char *)now.ss_sp && &here < (char *)now.ss_sp + now.ss_size);
    moment("on the alternate stack");
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_ONSTACK && now.ss_sp == (handled ? second : first));
    handled++;
}

static void *thread(void *unused)
{
    stack_t own = {.ss_sp = second, .ss_size = sizeof second}, now;
    (void)unused;
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_DISABLE);
    CHECK(sigaltstack(&own, NULL) == 0);
    moment("thread with an alternate stack");
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == second && now.ss_size == sizeof second && now.ss_flags == 0);
    CHECK(raise(SIGUSR1) == 0 && handled == 2);
    return NULL;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    stack_t own = {.ss_sp = first, .ss_size = sizeof first}, now;
    pthread_t other;
    CHECK(sigaltstack(&own, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0 && handled == 1);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == first && now.ss_size == sizeof first && now.ss_flags == 0);
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0 && pthread_join(other, NULL) == 0);
    puts("on stacks of their own");
    return 0;
}
