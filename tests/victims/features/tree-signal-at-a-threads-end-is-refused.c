/* A child that is to be signalled when the thread ends that has made it, and not its process, is refused.
 *
 * expect: refuse "signal" "thread"
 * doctor-blind: the kernel tells only the process itself
 */
#include "family.h"
#include <pthread.h>

static struct line line;
static volatile int made, go;
static pid_t child;

static void *maker(void *unused)
{
    (void)unused;
    CHECK((child = fork()) >= 0);
    if (child == 0) {
        be_child(&line);
        CHECK(prctl(PR_SET_PDEATHSIG, SIGTERM) == 0);
        put(line.up[1], 1);
        await_silence(line.down[0]);
        _exit(0);
    }
    CHECK(get(line.up[0]) == 1);
    made = 1;
    await(&go);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    open_line(&line);
    CHECK(pthread_create(&thread, NULL, maker, NULL) == 0);
    await(&made);
    moment("asked for");
    go = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    reap_killed(child, SIGTERM);
    puts("told");
    return 0;
}
