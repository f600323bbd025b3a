/* A child that was made by a thread, which goes on or has ended, is still a child of the process.
 *
 * expect: survive
 */
#include "family.h"
#include <pthread.h>

static pid_t children[2];
static int ends[2];
static volatile int go, made;

static void *maker(void *which)
{
    long place = (long)which;
    CHECK((children[place] = fork()) >= 0);
    if (children[place] == 0) {
        CHECK(close(ends[1]) == 0);
        await_silence(ends[0]);
        _exit(40 + (int)place);
    }
    if (place == 1)
        return NULL;
    made = 1;
    await(&go);
    reap(children[0], 40);
    return NULL;
}

int main(void)
{
    pthread_t stays, ended;
    CHECK(pipe(ends) == 0);
    CHECK(pthread_create(&stays, NULL, maker, (void *)0L) == 0);
    await(&made);
    CHECK(pthread_create(&ended, NULL, maker, (void *)1L) == 0);
    CHECK(pthread_join(ended, NULL) == 0);
    moment("two children");
    CHECK(waitpid(-1, NULL, WNOHANG) == 0);
    CHECK(close(ends[1]) == 0);
    reap(children[1], 41);
    await_state(children[0], 'Z');
    moment("one has ended");
    go = 1;
    CHECK(pthread_join(stays, NULL) == 0);
    puts("both found");
    return 0;
}
