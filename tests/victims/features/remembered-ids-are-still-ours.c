/* Process and thread ids that the program remembers are still its own: the C library, the kernel and signals agree. No
 * new thread gets the id of one that has ended: the program may remember that as well.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

static volatile int ready, go;
static volatile pid_t thread_id, got_by;
static pid_t process_id;

static void got(int signal)
{
    (void)signal;
    got_by = (pid_t)syscall(SYS_gettid);
}

static void *thread(void *unused)
{
    (void)unused;
    thread_id = gettid();
    ready = 1;
    await(&go);
    CHECK(gettid() == thread_id && syscall(SYS_gettid) == thread_id && getpid() == process_id);
    CHECK(raise(SIGUSR1) == 0 && got_by == thread_id);
    return NULL;
}

enum { ENDED = 8 };
static pid_t ended[ENDED];
static int ends;

static void *end(void *unused)
{
    (void)unused;
    ended[ends] = gettid();
    for (int i = 0; i < ends; i++)
        CHECK(ended[i] != ended[ends]);
    return NULL;
}

/* Begins threads, one after the other, and remembers the ids that they had. */
static void begin_and_end(int until)
{
    pthread_t other;
    for (; ends < until; ends++)
        CHECK(pthread_create(&other, NULL, end, NULL) == 0 && pthread_join(other, NULL) == 0);
}

int main(void)
{
    pthread_t other;
    process_id = getpid();
    CHECK(signal(SIGUSR1, got) != SIG_ERR && pthread_create(&other, NULL, thread, NULL) == 0);
    await(&ready);
    begin_and_end(ENDED / 2);
    moment("known");
    begin_and_end(ENDED);
    CHECK(getpid() == process_id && syscall(SYS_getpid) == process_id && gettid() == process_id);
    CHECK(kill(process_id, 0) == 0 && tgkill(process_id, thread_id, 0) == 0);
    CHECK(raise(SIGUSR1) == 0 && got_by == process_id);
    CHECK(pthread_kill(other, SIGUSR1) == 0);
    while (got_by != thread_id)
        usleep(200);
    got_by = 0;
    go = 1;
    CHECK(pthread_join(other, NULL) == 0 && got_by == thread_id);
    puts("ids are ours");
    return 0;
}
