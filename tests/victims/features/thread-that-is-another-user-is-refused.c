/* A thread that has become another user for itself, as file servers do, is refused by name; so is one in a namespace of
 * its own.
 *
 * expect: refuse "thread" "of its own, apart from its process"
 * flags: -pthread
 * needs: root
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

static volatile int apart, done;

static void be_another_user(void)
{
    /* The C library's own call would change all threads. */
    CHECK(syscall(SYS_setresuid, -1, 65534, -1) == 0);
}

static void be_elsewhere(void)
{
    CHECK(unshare(CLONE_NEWUTS) == 0);
}

static void *leave(void *how)
{
    ((void (*)(void))how)();
    apart = 1;
    await(&done);
    return NULL;
}

int main(void)
{
    void (*ways[])(void) = {be_another_user, be_elsewhere};
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        apart = done = 0;
        CHECK(pthread_create(&thread, NULL, leave, (void *)ways[i]) == 0);
        await(&apart);
        moment("apart");
        done = 1;
        CHECK(pthread_join(thread, NULL) == 0);
    }
    puts("apart");
    return 0;
}
