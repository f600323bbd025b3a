/* The name of every thread is kept, also that of the main thread.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>

static volatile int ready, go;

static void *thread(void *unused)
{
    char name[16];
    (void)unused;
    CHECK(pthread_setname_np(pthread_self(), "a (strange) one") == 0);
    ready = 1;
    await(&go);
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "a (strange) one") == 0);
    return NULL;
}

int main(void)
{
    pthread_t other;
    char name[16];
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    await(&ready);
    CHECK(pthread_setname_np(pthread_self(), "first") == 0);
    moment("named");
    CHECK(pthread_getname_np(other, name, sizeof name) == 0 && strcmp(name, "a (strange) one") == 0);
    go = 1;
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "first") == 0);
    CHECK(pthread_join(other, NULL) == 0);
    FILE *comm = fopen("/proc/self/comm", "r");
    CHECK(comm != NULL && fgets(name, sizeof name, comm) && strcmp(name, "first\n") == 0 && fclose(comm) == 0);
    puts("names kept");
    return 0;
}
