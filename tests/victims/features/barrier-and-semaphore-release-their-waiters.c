/* Threads that wait at a barrier or for a semaphore go on when, and only when, their turn comes after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>

static pthread_barrier_t barrier;
static sem_t semaphore;
static volatile pid_t at_barrier, at_semaphore;
static volatile int passed;

static void *waiter(void *unused)
{
    (void)unused;
    at_barrier = gettid();
    int serial = pthread_barrier_wait(&barrier);
    CHECK(serial == 0 || serial == PTHREAD_BARRIER_SERIAL_THREAD);
    at_semaphore = gettid();
    CHECK(sem_wait(&semaphore) == 0);
    passed = 1;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    int value;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0 && sem_init(&semaphore, 0, 0) == 0);
    CHECK(pthread_create(&thread, NULL, waiter, NULL) == 0);
    await((volatile int *)&at_barrier);
    await_call(at_barrier, SYS_futex);
    moment("at the barrier");
    CHECK(!at_semaphore);
    int serial = pthread_barrier_wait(&barrier);
    CHECK(serial == 0 || serial == PTHREAD_BARRIER_SERIAL_THREAD);
    await((volatile int *)&at_semaphore);
    await_call(at_semaphore, SYS_futex);
    moment("at the semaphore");
    CHECK(!passed && sem_getvalue(&semaphore, &value) == 0 && value == 0);
    CHECK(sem_post(&semaphore) == 0 && sem_post(&semaphore) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(sem_getvalue(&semaphore, &value) == 0 && value == 1);
    puts("released");
    return 0;
}
