/* A parent that has programs executed all the time (posix_spawn, which shares memory with the child until then) is
 * checkpointed meanwhile: every program runs once and says what it should.
 *
 * expect: survive
 */
#include "family.h"
#include <pthread.h>
#include <spawn.h>

static volatile int made, stop;
extern char **environ;

static void *storm(void *unused)
{
    (void)unused;
    while (!stop) {
        pid_t child;
        char script[32];
        snprintf(script, sizeof script, "exit %d", made & 127);
        char *arguments[] = {"sh", "-c", script, NULL};
        CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
        reap(child, made & 127);
        made++;
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, storm, NULL) == 0);
    for (int i = 1; i <= 6; i++) {
        int before = made;
        while (made < before + 10)
            usleep(200);
        moment("storm");
    }
    stop = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("the storm is over");
    return 0;
}
