/* A thread that handles system calls of its own (syscall user dispatch) is refused by name, whether it does so at the
 * moment or not.
 *
 * expect: refuse "thread" "syscall user dispatch"
 * flags: -pthread
 * doctor-blind: only a tracer can ask
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

static volatile char catches;
static volatile int caught, ready, done;

static void catch(int signal, siginfo_t *information, void *context)
{
    (void)signal, (void)information, (void)context;
    catches = SYSCALL_DISPATCH_FILTER_ALLOW;
    caught++;
}

static void *handles(void *nothing)
{
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &catches) != 0)
        LACKS("syscall user dispatch");
    ready = 1;
    while (!done) {
    }
    catches = SYSCALL_DISPATCH_FILTER_BLOCK;
    syscall(SYS_getppid);
    CHECK(caught == 1);
    return nothing;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = catch, .sa_flags = SA_SIGINFO};
    pthread_t thread;
    struct utsname kernel;
    int major, minor;
    CHECK(uname(&kernel) == 0 && sscanf(kernel.release, "%d.%d", &major, &minor) == 2);
    if (major < 6 || (major == 6 && minor < 4))
        LACKS("a kernel that tells a tracer of syscall user dispatch (Linux 6.4)");
    CHECK(sigaction(SIGSYS, &action, NULL) == 0 && pthread_create(&thread, NULL, handles, NULL) == 0);
    await(&ready);
    moment("not caught");
    catches = SYSCALL_DISPATCH_FILTER_BLOCK;
    moment("caught");
    done = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("handled");
    return 0;
}
