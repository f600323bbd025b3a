/* Processes that lose their parents all the time, and talk to those who are left, are checkpointed meanwhile: each of them
 * comes to its end.
 *
 * expect: survive
 */
#include "family.h"
#include <pthread.h>

static volatile int made, stop;

static void *storm(void *unused)
{
    (void)unused;
    while (!stop) {
        int ends[2];
        CHECK(pipe2(ends, O_CLOEXEC) == 0);
        pid_t between = fork();
        CHECK(between >= 0);
        if (between == 0) {
            if (made % 3 == 0)
                CHECK(setsid() == getpid());
            for (int i = 0; i < 3; i++)
                if (fork() == 0) {
                    usleep(500 * i);
                    put(ends[1], made + i);
                    _exit(0);
                }
            _exit(1);
        }
        CHECK(close(ends[1]) == 0);
        int sum = get(ends[0]) + get(ends[0]) + get(ends[0]);
        CHECK(sum == 3 * made + 3);
        await_silence(ends[0]);
        CHECK(close(ends[0]) == 0);
        reap(between, 1);
        made++;
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    /* A look at the running program (doctor) may miss whoever comes and goes meanwhile: that is not what this is about. */
    moment("quiet");
    CHECK(pthread_create(&thread, NULL, storm, NULL) == 0);
    for (int i = 1; i <= 6; i++) {
        int before = made;
        while (made < before + 5)
            usleep(200);
        moment("storm");
    }
    stop = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("the storm is over");
    return 0;
}
