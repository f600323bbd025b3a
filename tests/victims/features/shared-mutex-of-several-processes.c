/* Locks in shared memory that processes hold and wait for at the checkpoint: a mutex, a robust one whose owner dies after
 * the restart, a condition variable, a semaphore, a barrier and a read-write lock.
 *
 * expect: survive
 */
#include "family.h"
#include <pthread.h>
#include <semaphore.h>

struct locks {
    pthread_mutex_t plain, robust, guard;
    pthread_cond_t condition;
    pthread_barrier_t barrier;
    pthread_rwlock_t lock;
    sem_t semaphore;
    volatile int holds, woken, passed, wrote;
    int told;
};

static struct locks *shared;

static pid_t start(void (*work)(void))
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work();
        _exit(0);
    }
    return child;
}

static void hold(void)
{
    CHECK(pthread_mutex_lock(&shared->plain) == 0 && pthread_mutex_lock(&shared->robust) == 0);
    shared->holds = 1;
    CHECK(sem_wait(&shared->semaphore) == 0);
    CHECK(pthread_mutex_unlock(&shared->plain) == 0);
    /* Ends as the owner of the robust one. */
}

static void wait_for_plain(void)
{
    CHECK(pthread_mutex_lock(&shared->plain) == 0);
    CHECK(pthread_mutex_unlock(&shared->plain) == 0);
}

static void wait_for_robust(void)
{
    CHECK(pthread_mutex_lock(&shared->robust) == EOWNERDEAD);
    CHECK(pthread_mutex_consistent(&shared->robust) == 0 && pthread_mutex_unlock(&shared->robust) == 0);
}

static void wait_for_news(void)
{
    CHECK(pthread_mutex_lock(&shared->guard) == 0);
    while (!shared->told)
        CHECK(pthread_cond_wait(&shared->condition, &shared->guard) == 0);
    shared->woken++;
    CHECK(pthread_mutex_unlock(&shared->guard) == 0);
}

static void meet(void)
{
    int met = pthread_barrier_wait(&shared->barrier);
    CHECK(met == 0 || met == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void wait_to_write(void)
{
    CHECK(pthread_rwlock_wrlock(&shared->lock) == 0);
    shared->wrote = 1;
    CHECK(pthread_rwlock_unlock(&shared->lock) == 0);
}

static void make(void)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_barrierattr_t barrier;
    pthread_rwlockattr_t lock;
    shared = share(sizeof *shared);
    CHECK(pthread_mutexattr_init(&mutex) == 0 && pthread_condattr_init(&condition) == 0);
    CHECK(pthread_barrierattr_init(&barrier) == 0 && pthread_rwlockattr_init(&lock) == 0);
    CHECK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_rwlockattr_setpshared(&lock, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(&shared->plain, &mutex) == 0 && pthread_mutex_init(&shared->guard, &mutex) == 0);
    CHECK(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_ERRORCHECK) == 0);
    CHECK(pthread_mutex_init(&shared->robust, &mutex) == 0);
    CHECK(pthread_cond_init(&shared->condition, &condition) == 0);
    CHECK(pthread_barrier_init(&shared->barrier, &barrier, 3) == 0);
    CHECK(pthread_rwlock_init(&shared->lock, &lock) == 0);
    CHECK(sem_init(&shared->semaphore, 1, 0) == 0);
}

int main(void)
{
    make();
    pid_t holder = start(hold);
    await(&shared->holds);
    CHECK(pthread_rwlock_rdlock(&shared->lock) == 0);
    pid_t waiters[] = {start(wait_for_plain), start(wait_for_robust), start(wait_for_news), start(wait_for_news),
                       start(meet),           start(meet),            start(wait_to_write)};
    enum { WAITERS = sizeof waiters / sizeof *waiters };
    for (int i = 0; i < WAITERS; i++)
        await_call_of(waiters[i], SYS_futex);
    await_call_of(holder, SYS_futex);
    moment("all wait");
    CHECK(pthread_mutex_trylock(&shared->plain) == EBUSY && pthread_mutex_trylock(&shared->robust) == EBUSY);
    CHECK(pthread_rwlock_unlock(&shared->lock) == 0);
    reap(waiters[6], 0);
    CHECK(shared->wrote);
    meet();
    reap(waiters[4], 0);
    reap(waiters[5], 0);
    CHECK(pthread_mutex_lock(&shared->guard) == 0);
    shared->told = 1;
    CHECK(pthread_cond_broadcast(&shared->condition) == 0 && pthread_mutex_unlock(&shared->guard) == 0);
    reap(waiters[2], 0);
    reap(waiters[3], 0);
    CHECK(shared->woken == 2);
    moment("two wait");
    CHECK(sem_post(&shared->semaphore) == 0);
    reap(holder, 0);
    reap(waiters[0], 0);
    reap(waiters[1], 0);
    CHECK(pthread_mutex_lock(&shared->robust) == 0 && pthread_mutex_lock(&shared->plain) == 0);
    puts("all released");
    return 0;
}
