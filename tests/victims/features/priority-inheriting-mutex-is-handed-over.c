/* A priority-inheriting mutex with threads waiting in the kernel is handed from one to the next after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>

enum { COUNT = 3 };
static pthread_mutex_t mutex;
static volatile pid_t waiting[COUNT];
static int passed;

static void *waiter(void *number)
{
    waiting[(long)number] = gettid();
    CHECK(pthread_mutex_lock(&mutex) == 0);
    passed++;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return NULL;
}

int main(void)
{
    pthread_mutexattr_t inherit;
    pthread_t threads[COUNT];
    CHECK(pthread_mutexattr_init(&inherit) == 0);
    CHECK(pthread_mutexattr_setprotocol(&inherit, PTHREAD_PRIO_INHERIT) == 0);
    CHECK(pthread_mutex_init(&mutex, &inherit) == 0);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    for (long i = 0; i < COUNT; i++) {
        CHECK(pthread_create(&threads[i], NULL, waiter, (void *)i) == 0);
        await((volatile int *)&waiting[i]);
        await_call(waiting[i], SYS_futex);
    }
    moment("contended");
    CHECK(passed == 0 && pthread_mutex_unlock(&mutex) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(passed == COUNT && pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    puts("handed over");
    return 0;
}
