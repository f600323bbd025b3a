/* Switches that few programs set are as they were after a restart: merging of equal pages, an alternate stack that disarms
 * itself, a scheduling policy that children do not inherit, a thread that serves disks, and one without CPUID.
 *
 * expect: survive
 * flags: -pthread
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { SET_FLUSHER = 57, GET_FLUSHER = 58, SET_MERGE = 67, GET_MERGE = 68, GET_CPUID = 0x1011, SET_CPUID = 0x1012 };
enum { DISARM = 1 << 31, STACK_BYTES = 1 << 16 };
static char room[STACK_BYTES];
static volatile int ready, look;

static void *thread(void *unused)
{
    int has_fault = syscall(SYS_arch_prctl, SET_CPUID, 0) == 0;
    int flushes = prctl(SET_FLUSHER, 1, 0, 0, 0) == 0;
    CHECK(flushes || errno == EPERM);
    ready = 1;
    await(&look);
    CHECK(syscall(SYS_arch_prctl, GET_CPUID, 0) == !has_fault);
    CHECK(!flushes || prctl(GET_FLUSHER, 0, 0, 0, 0) == 1);
    return unused;
}

int main(void)
{
    pthread_t other;
    struct sched_param none = {0};
    stack_t stack = {.ss_sp = room, .ss_flags = DISARM, .ss_size = sizeof room}, now;
    int merges = prctl(SET_MERGE, 1, 0, 0, 0) == 0;
    CHECK(merges || errno == EINVAL || errno == EPERM); /* a kernel without merging, or a plain user */
    CHECK(sigaltstack(&stack, NULL) == 0);
    CHECK(sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none) == 0);
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    await(&ready);
    moment("set");
    look = 1;
    CHECK(!merges || prctl(GET_MERGE, 0, 0, 0, 0) == 1);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == room && now.ss_size == sizeof room && now.ss_flags == DISARM);
    CHECK(sched_getscheduler(0) == (SCHED_BATCH | SCHED_RESET_ON_FORK));
    CHECK(syscall(SYS_arch_prctl, GET_CPUID, 0) == 1);
    CHECK(pthread_join(other, NULL) == 0);
    puts("as they were set");
    return 0;
}
