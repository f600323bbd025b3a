/* Threads that come and go and make children meanwhile are checkpointed: every thread and every child ends as it should.
 *
 * expect: survive
 */
#include "family.h"
#include <pthread.h>

static volatile int made, stop;

static void *once(void *number)
{
    int code = (int)(long)number & 127;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(code);
    reap(child, code);
    return number;
}

static void *storm(void *unused)
{
    (void)unused;
    while (!stop) {
        pthread_t threads[3];
        for (long i = 0; i < 3; i++)
            CHECK(pthread_create(&threads[i], NULL, once, (void *)(made + i)) == 0);
        for (long i = 0; i < 3; i++) {
            void *result;
            CHECK(pthread_join(threads[i], &result) == 0 && result == (void *)(made + i));
        }
        made += 3;
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, storm, NULL) == 0);
    for (int i = 1; i <= 6; i++) {
        int before = made;
        while (made < before + 20)
            usleep(200);
        moment("storm");
    }
    stop = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(wait(NULL) == -1 && errno == ECHILD);
    puts("the storm is over");
    return 0;
}
