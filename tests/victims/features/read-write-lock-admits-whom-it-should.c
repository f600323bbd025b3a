/* A lock held by readers keeps the waiting writer out after a restart, and lets it in when they have gone.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static volatile pid_t writing;
static volatile int written;

static void *writer(void *unused)
{
    (void)unused;
    writing = gettid();
    CHECK(pthread_rwlock_wrlock(&lock) == 0);
    written = 1;
    CHECK(pthread_rwlock_unlock(&lock) == 0);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_rwlock_rdlock(&lock) == 0 && pthread_rwlock_rdlock(&lock) == 0);
    CHECK(pthread_create(&thread, NULL, writer, NULL) == 0);
    await((volatile int *)&writing);
    await_call(writing, SYS_futex);
    moment("held by readers");
    CHECK(!written && pthread_rwlock_trywrlock(&lock) == EBUSY);
    CHECK(pthread_rwlock_unlock(&lock) == 0 && !written);
    CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_join(thread, NULL) == 0 && written);
    CHECK(pthread_rwlock_wrlock(&lock) == 0);
    moment("held by a writer");
    CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY && pthread_rwlock_unlock(&lock) == 0);
    puts("admitted");
    return 0;
}
