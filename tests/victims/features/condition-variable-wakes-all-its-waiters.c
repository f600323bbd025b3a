/* Threads that wait for a condition variable are woken by a signal and by a broadcast after a restart, none too early.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>

enum { COUNT = 5 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static volatile pid_t waiting[COUNT];
static int tickets, taken;

static void *waiter(void *number)
{
    CHECK(pthread_mutex_lock(&mutex) == 0);
    waiting[(long)number] = gettid();
    while (tickets == 0)
        CHECK(pthread_cond_wait(&changed, &mutex) == 0);
    tickets--;
    taken++;
    CHECK(pthread_cond_signal(&answered) == 0 && pthread_mutex_unlock(&mutex) == 0);
    return NULL;
}

int main(void)
{
    pthread_t threads[COUNT];
    for (long i = 0; i < COUNT; i++) {
        CHECK(pthread_create(&threads[i], NULL, waiter, (void *)i) == 0);
        await((volatile int *)&waiting[i]);
        await_call(waiting[i], SYS_futex);
    }
    moment("all wait");
    CHECK(pthread_mutex_lock(&mutex) == 0 && taken == 0);
    tickets = 1;
    CHECK(pthread_cond_signal(&changed) == 0);
    while (taken == 0)
        CHECK(pthread_cond_wait(&answered, &mutex) == 0);
    CHECK(taken == 1 && tickets == 0 && pthread_mutex_unlock(&mutex) == 0);
    moment("one has gone");
    CHECK(pthread_mutex_lock(&mutex) == 0);
    tickets = COUNT - 1;
    CHECK(pthread_cond_broadcast(&changed) == 0 && pthread_mutex_unlock(&mutex) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(taken == COUNT && tickets == 0);
    puts("all woken");
    return 0;
}
