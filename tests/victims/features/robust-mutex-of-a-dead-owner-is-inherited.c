/* A robust mutex held at the checkpoint has the same owner after it, and goes to the next one when that thread dies.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>

static pthread_mutex_t mutex;
static volatile int held, go;

static void *owner(void *unused)
{
    (void)unused;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    held = 1;
    await(&go);
    return NULL; /* without unlocking */
}

int main(void)
{
    pthread_mutexattr_t robust;
    pthread_t other;
    CHECK(pthread_mutexattr_init(&robust) == 0);
    CHECK(pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutex_init(&mutex, &robust) == 0);
    CHECK(pthread_create(&other, NULL, owner, NULL) == 0);
    await(&held);
    moment("held");
    CHECK(pthread_mutex_trylock(&mutex) == EBUSY);
    go = 1;
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(pthread_mutex_lock(&mutex) == EOWNERDEAD);
    moment("inherited");
    CHECK(pthread_mutex_consistent(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    puts("inherited");
    return 0;
}
