/* The base of the GS segment, which a program may use for itself, is kept for each thread, and FS for the C library.
 *
 * expect: survive
 */
#include "check.h"
#include <asm/prctl.h>
#include <pthread.h>
#include <sys/syscall.h>

static uint64_t areas[2][4] = {{11, 12, 13, 14}, {21, 22, 23, 24}};
static volatile int ready, go;

static uint64_t through_gs(void)
{
    uint64_t value;
    __asm__ volatile("mov %%gs:16, %0" : "=r"(value));
    return value;
}

static void *thread(void *unused)
{
    void *base = NULL, *pointer = __builtin_thread_pointer();
    (void)unused;
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, areas[1]) == 0 && through_gs() == 23);
    ready = 1;
    await(&go);
    CHECK(through_gs() == 23 && __builtin_thread_pointer() == pointer);
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 && base == areas[1]);
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &base) == 0 && base == pointer);
    return NULL;
}

int main(void)
{
    pthread_t other;
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, areas[0]) == 0 && through_gs() == 13);
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    await(&ready);
    moment("set");
    go = 1;
    CHECK(through_gs() == 13 && pthread_join(other, NULL) == 0);
    puts("kept");
    return 0;
}
