/* Each thread has its own thread-local variables and keyed values, and the destructors run when it ends.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>

enum { COUNT = 8 };
static _Thread_local long own = -1;
static _Thread_local char large[100000];
static pthread_key_t key;
static pthread_barrier_t all_ready, all_go;
static long destroyed[COUNT];

static void destroy(void *value)
{
    destroyed[(long)value - 1]++;
}

static void *thread(void *number)
{
    CHECK(own == -1);
    own = (long)number;
    large[own * 1000] = (char)own;
    CHECK(pthread_setspecific(key, number) == 0);
    pthread_barrier_wait(&all_ready);
    pthread_barrier_wait(&all_go);
    CHECK(own == (long)number && large[own * 1000] == own && pthread_getspecific(key) == number);
    return number;
}

int main(void)
{
    pthread_t threads[COUNT];
    CHECK(pthread_key_create(&key, destroy) == 0);
    CHECK(pthread_barrier_init(&all_ready, NULL, COUNT + 1) == 0);
    CHECK(pthread_barrier_init(&all_go, NULL, COUNT + 1) == 0);
    for (long i = 0; i < COUNT; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)(i + 1)) == 0);
    pthread_barrier_wait(&all_ready);
    moment("all have theirs");
    pthread_barrier_wait(&all_go);
    for (long i = 0; i < COUNT; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0 && result == (void *)(i + 1) && destroyed[i] == 1);
    }
    CHECK(own == -1);
    puts("each its own");
    return 0;
}
