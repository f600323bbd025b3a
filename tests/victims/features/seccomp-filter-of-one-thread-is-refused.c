/* A seccomp filter is refused by name, also where a single thread has it.
 *
 * expect: refuse "seccomp"
 * flags: -pthread
 */
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>

static volatile int ready, end;

static void *filtered(void *nothing)
{
    struct sock_filter allow_all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {.len = 1, .filter = allow_all};
    (void)nothing;
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
    ready = 1;
    await(&end);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, filtered, NULL) == 0);
    await(&ready);
    moment("filtered");
    end = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("filtered");
    return 0;
}
