/* The parent of a vfork cannot be stopped before its child has executed a program or ended: the checkpoint is given up
 * after a while, and parent and child go on unharmed.
 *
 * expect: refuse "cannot be stopped"
 * doctor-blind: the child may be gone by the time of the checkpoint
 */
#include "family.h"
#include <pthread.h>

static volatile int go, lingers;

static void *maker(void *unused)
{
    (void)unused;
    pid_t child = vfork();
    if (child == 0) {
        lingers = 1;
        while (!go)
            usleep(200);
        execl("/bin/sh", "sh", "-c", "exit 12", (char *)NULL);
        _exit(1);
    }
    reap(child, 12);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, maker, NULL) == 0);
    await(&lingers);
    moment("lingers");
    go = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("executed");
    return 0;
}
