/* Detached threads go on after a restart and end by themselves; new ones can be made, with stacks of their own.
 *
 * expect: survive
 */
#include "check.h"
#include <dirent.h>
#include <pthread.h>

enum { COUNT = 6 };
static volatile int go;
static int ready, done;

static void *thread(void *unused)
{
    (void)unused;
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    await(&go);
    __atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static int threads_alive(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    CHECK(closedir(folder) == 0);
    return count;
}

int main(void)
{
    pthread_attr_t detached;
    pthread_t thread_;
    CHECK(pthread_attr_init(&detached) == 0);
    CHECK(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(pthread_create(&thread_, &detached, thread, NULL) == 0);
    while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < COUNT)
        usleep(200);
    moment("all there");
    CHECK(threads_alive() == COUNT + 1);
    for (int i = 0; i < COUNT; i++)
        CHECK(pthread_create(&thread_, &detached, thread, NULL) == 0);
    go = 1;
    while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < 2 * COUNT || threads_alive() > 1)
        usleep(200);
    moment("all gone");
    CHECK(threads_alive() == 1);
    puts("all ended");
    return 0;
}
