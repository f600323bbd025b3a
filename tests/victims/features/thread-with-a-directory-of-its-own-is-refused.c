/* A thread that has a working directory of its own (unshare, as servers do for their clients) is refused by name.
 *
 * expect: refuse "thread" "working directory of its own"
 * flags: -pthread
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>

static volatile int apart, done;

static void *leave(void *nothing)
{
    char where[8];
    CHECK(unshare(CLONE_FS) == 0 && chdir("/") == 0);
    apart = 1;
    await(&done);
    CHECK(getcwd(where, sizeof where) != NULL && strcmp(where, "/") == 0);
    return nothing;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, leave, NULL) == 0);
    await(&apart);
    moment("apart");
    done = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("apart");
    return 0;
}
