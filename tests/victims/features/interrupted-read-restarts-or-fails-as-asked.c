/* A signal that comes after a restart makes a blocked read go on with SA_RESTART, and fail with EINTR without it.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

static int ends[2];
static volatile pid_t reading;
static volatile int handled, interrupted;

static void handler(int signal)
{
    (void)signal;
    handled++;
}

static void *reader(void *unused)
{
    char byte = 0;
    (void)unused;
    reading = gettid();
    CHECK(read(ends[0], &byte, 1) == -1 && errno == EINTR);
    interrupted = 1;
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
    return NULL;
}

int main(void)
{
    struct sigaction restarting = {.sa_handler = handler, .sa_flags = SA_RESTART}, failing = {.sa_handler = handler};
    pthread_t thread;
    CHECK(sigaction(SIGUSR1, &restarting, NULL) == 0 && sigaction(SIGUSR2, &failing, NULL) == 0);
    CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, reader, NULL) == 0);
    await((volatile int *)&reading);
    await_call(reading, SYS_read);
    moment("reading");
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    while (handled < 1)
        usleep(200);
    await_call(reading, SYS_read);
    CHECK(!interrupted);
    moment("reading again");
    CHECK(pthread_kill(thread, SIGUSR2) == 0);
    await(&interrupted);
    CHECK(handled == 2);
    moment("interrupted");
    CHECK(write(ends[1], "x", 1) == 1 && pthread_join(thread, NULL) == 0);
    puts("as asked");
    return 0;
}
