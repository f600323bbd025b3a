/* A hundred threads, computing and waiting, all go on where they were.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>

enum { COUNT = 100 };
static pthread_barrier_t ready, go;

static void *thread(void *number)
{
    uint64_t state = (uint64_t)number, sum = FOLD_START;
    pthread_barrier_wait(&ready);
    for (int i = 0; i < 20000; i++) {
        uint64_t next = next_number(&state);
        sum = fold(sum, &next, sizeof next);
    }
    pthread_barrier_wait(&go);
    return (void *)sum;
}

int main(void)
{
    pthread_t threads[COUNT];
    pthread_attr_t small;
    uint64_t sum = 0;
    CHECK(pthread_barrier_init(&ready, NULL, COUNT + 1) == 0 && pthread_barrier_init(&go, NULL, COUNT + 1) == 0);
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 65536) == 0);
    for (long i = 0; i < COUNT; i++)
        CHECK(pthread_create(&threads[i], &small, thread, (void *)i) == 0);
    pthread_barrier_wait(&ready);
    moment("at work");
    pthread_barrier_wait(&go);
    for (int i = 0; i < COUNT; i++) {
        void *own;
        CHECK(pthread_join(threads[i], &own) == 0);
        sum ^= (uint64_t)own;
    }
    printf("a hundred: %016lx\n", (unsigned long)sum);
    return 0;
}
