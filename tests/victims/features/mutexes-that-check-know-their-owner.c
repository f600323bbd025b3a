/* Error-checking and recursive mutexes held at the checkpoint know their owner, and everybody else, afterwards.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>

static pthread_mutex_t checking, recursive;

static void *other(void *unused)
{
    (void)unused;
    CHECK(pthread_mutex_trylock(&checking) == EBUSY && pthread_mutex_unlock(&checking) == EPERM);
    CHECK(pthread_mutex_trylock(&recursive) == EBUSY && pthread_mutex_unlock(&recursive) == EPERM);
    return NULL;
}

int main(void)
{
    pthread_mutexattr_t attributes;
    pthread_t thread;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK) == 0);
    CHECK(pthread_mutex_init(&checking, &attributes) == 0);
    CHECK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE) == 0);
    CHECK(pthread_mutex_init(&recursive, &attributes) == 0);
    CHECK(pthread_mutex_lock(&checking) == 0);
    CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
    moment("held");
    CHECK(pthread_mutex_lock(&checking) == EDEADLK);
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pthread_mutex_lock(&recursive) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_mutex_unlock(&recursive) == 0);
    CHECK(pthread_mutex_unlock(&recursive) == EPERM);
    CHECK(pthread_mutex_unlock(&checking) == 0 && pthread_mutex_unlock(&checking) == EPERM);
    puts("owners known");
    return 0;
}
