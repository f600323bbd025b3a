/* Only the main thread has given up new privileges; another thread has not.
 *
 * expect: survive
 * flags: -pthread
 */
#include "check.h"
#include <pthread.h>
#include <sys/prctl.h>

static volatile int ready, over;

static void *other(void *nothing)
{
    ready = 1;
    await(&over);
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
    return nothing;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    await(&ready);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    moment("restricted");
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("only the main thread");
    return 0;
}
