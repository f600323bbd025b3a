/* A thread that has left the table of descriptors of its process (unshare) is refused by name: what it has open nobody sees.
 *
 * expect: refuse "thread" "table of descriptors of its own"
 * flags: -pthread
 */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

static volatile int apart, done;

static void *leave(void *nothing)
{
    CHECK(unshare(CLONE_FILES) == 0);
    int own = open("/dev/null", O_WRONLY);
    CHECK(own >= 0);
    apart = 1;
    await(&done);
    CHECK(write(own, "x", 1) == 1 && close(own) == 0);
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
