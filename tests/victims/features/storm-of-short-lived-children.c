/* A parent that makes short-lived children all the time, hundreds a second, is checkpointed meanwhile: no child is lost,
 * none is told twice, none is left stopped.
 *
 * expect: survive
 */
#include "family.h"
#include <pthread.h>

static volatile int made;
static volatile int stop;

static void *storm(void *unused)
{
    (void)unused;
    while (!stop) {
        pid_t children[4];
        for (int i = 0; i < 4; i++) {
            CHECK((children[i] = fork()) >= 0);
            if (children[i] == 0)
                _exit((made + i) & 127);
        }
        for (int i = 0; i < 4; i++)
            reap(children[i], (made + i) & 127);
        made += 4;
    }
    return NULL;
}

int main(void)
{
    pthread_t threads;
    CHECK(pthread_create(&threads, NULL, storm, NULL) == 0);
    for (int i = 1; i <= 6; i++) {
        int before = made;
        while (made < before + 40)
            usleep(200);
        moment("storm");
    }
    stop = 1;
    CHECK(pthread_join(threads, NULL) == 0);
    CHECK(wait(NULL) == -1 && errno == ECHILD);
    puts("the storm is over");
    return 0;
}
