/* A thread that is blocked in a system call can be cancelled after a restart, and its cleanup handlers run.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>

static int ends[2];
static volatile pid_t reading;
static int cleaned;

static void clean(void *by)
{
    cleaned += *(int *)by;
}

static void *reader(void *unused)
{
    int three = 3;
    char byte;
    (void)unused;
    pthread_cleanup_push(clean, &three);
    reading = gettid();
    CHECK(read(ends[0], &byte, 1) == 1);
    CHECK(!"read something");
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    void *result;
    CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, reader, NULL) == 0);
    await((volatile int *)&reading);
    await_call(reading, SYS_read);
    moment("blocked");
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && cleaned == 3);
    puts("cancelled");
    return 0;
}
