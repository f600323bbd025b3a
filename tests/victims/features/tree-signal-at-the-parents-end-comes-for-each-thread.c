/* Threads of a process that have asked for different signals at the end of their parent get them after a restart, and a
 * thread that has asked for none still has not.
 *
 * expect: survive
 * flags: -pthread
 */
#include "family.h"
#include <pthread.h>

static struct line line;
static sigset_t set;

static int asked(void)
{
    int signal = -1;
    CHECK(prctl(PR_GET_PDEATHSIG, &signal) == 0);
    return signal;
}

static void *wait_for(void *wanted)
{
    int signal = (int)(intptr_t)wanted;
    siginfo_t info;
    sigset_t own;
    CHECK(sigemptyset(&own) == 0 && sigaddset(&own, signal) == 0);
    if (signal != SIGTERM)
        CHECK(prctl(PR_SET_PDEATHSIG, signal) == 0);
    put(line.up[1], 1);
    CHECK(sigwaitinfo(&own, &info) == signal);
    CHECK(asked() == (signal == SIGTERM ? 0 : signal));
    return NULL;
}

static void be_grandchild(void)
{
    pthread_t other, none;
    CHECK(pthread_create(&none, NULL, wait_for, (void *)(intptr_t)SIGTERM) == 0);
    CHECK(pthread_create(&other, NULL, wait_for, (void *)(intptr_t)SIGUSR2) == 0);
    wait_for((void *)(intptr_t)SIGUSR1);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(kill(getpid(), SIGTERM) == 0 && pthread_join(none, NULL) == 0);
    put(line.up[1], 2);
    _exit(0);
}

int main(void)
{
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGUSR1) == 0 && sigaddset(&set, SIGUSR2) == 0);
    CHECK(sigaddset(&set, SIGTERM) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    open_line(&line);
    pid_t between = fork();
    CHECK(between >= 0);
    if (between == 0) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            be_grandchild();
        be_child(&line);
        await_silence(line.down[0]);
        _exit(3);
    }
    CHECK(close(line.up[1]) == 0);
    for (int asking = 0; asking < 3; asking++)
        CHECK(get(line.up[0]) == 1);
    moment("asked for");
    CHECK(kill(between, SIGKILL) == 0);
    reap_killed(between, SIGKILL);
    CHECK(get(line.up[0]) == 2);
    await_silence(line.up[0]);
    puts("told");
    return 0;
}
