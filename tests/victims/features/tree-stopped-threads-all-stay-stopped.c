/* Of a stopped process with several threads none runs after a restart before it is continued; then all do.
 *
 * expect: survive
 */
#include "family.h"
#include <pthread.h>

enum { THREADS = 3 };
static volatile long *counts;

static void *count(void *which)
{
    for (;;)
        counts[(long)which]++;
    return NULL;
}

int main(void)
{
    int status;
    counts = share(4096);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pthread_t threads[THREADS];
        for (long i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, count, (void *)i) == 0);
        for (;;)
            pause();
    }
    for (int round = 0; round < 2; round++) {
        long seen[THREADS];
        for (int i = 0; i < THREADS; i++)
            for (long before = counts[i]; counts[i] == before;)
                usleep(200);
        CHECK(kill(child, SIGSTOP) == 0);
        CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        for (int i = 0; i < THREADS; i++)
            seen[i] = counts[i];
        moment("stopped");
        await_state(child, 'T');
        for (int i = 0; i < THREADS; i++)
            CHECK(counts[i] == seen[i]);
        CHECK(waitpid(child, &status, WUNTRACED | WNOHANG) == 0);
        CHECK(kill(child, SIGCONT) == 0);
    }
    CHECK(kill(child, SIGKILL) == 0);
    reap_killed(child, SIGKILL);
    puts("all stood still");
    return 0;
}
