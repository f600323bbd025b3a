/* Threads that have said that they keep their capabilities when they change their user (PR_SET_KEEPCAPS) still have after a
 * restart, and so have the children that they make; others have not.
 *
 * expect: survive
 * flags: -pthread
 */
#include "check.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3 };

static pthread_barrier_t said, on;

static void must_be(int wanted)
{
    CHECK(prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0) == wanted);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0));
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == wanted);
}

static void *keep(void *wanted)
{
    int keeps = *(int *)wanted;
    CHECK(prctl(PR_SET_KEEPCAPS, keeps, 0, 0, 0) == 0);
    pthread_barrier_wait(&said);
    pthread_barrier_wait(&on);
    must_be(keeps);
    return NULL;
}

int main(void)
{
    static int keeps[THREADS] = {1, 0, 1};
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&said, NULL, THREADS + 1) == 0 && pthread_barrier_init(&on, NULL, THREADS + 1) == 0);
    for (int at = 0; at < THREADS; at++)
        CHECK(pthread_create(&threads[at], NULL, keep, &keeps[at]) == 0);
    CHECK(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
    pthread_barrier_wait(&said);
    moment("said");
    pthread_barrier_wait(&on);
    for (int at = 0; at < THREADS; at++)
        CHECK(pthread_join(threads[at], NULL) == 0);
    must_be(1);
    puts("kept");
    return 0;
}
