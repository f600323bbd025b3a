/* A thread that has given up new privileges, the time stamp counter or fast speculation has given them up after a restart
 * too, and no other thread has.
 *
 * expect: survive
 * flags: -pthread
 */
#include "check.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <x86intrin.h>

static sigjmp_buf out;
static volatile int ready, look, looked;

static void leave(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

static int counter_faults(void)
{
    if (sigsetjmp(out, 1) != 0)
        return 1;
    (void)__rdtsc();
    return 0;
}

static void *restricted(void *nothing)
{
    (void)nothing;
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
    CHECK(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0) == 0);
    int speculation = prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, 0, 0) == 0;
    ready = 1;
    for (int life = 1; life <= 2; life++) {
        while (look < life)
            usleep(200);
        CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
        CHECK(counter_faults());
        CHECK(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0) == PR_MCE_KILL_EARLY);
        if (speculation)
            CHECK(prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0) & PR_SPEC_DISABLE);
        looked = life;
    }
    return NULL;
}

int main(void)
{
    struct sigaction action = {.sa_handler = leave};
    pthread_t thread;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, restricted, NULL) == 0);
    await(&ready);
    for (int life = 1; life <= 2; life++) {
        moment("restricted");
        CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
        CHECK(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0) == PR_MCE_KILL_DEFAULT);
        look = life;
        while (looked < life)
            usleep(200);
        CHECK(!counter_faults());
    }
    CHECK(pthread_join(thread, NULL) == 0);
    puts("restricted");
    return 0;
}
