/* The guard page below a thread's stack and the holes between mappings raise SIGSEGV after a restart as before.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

static _Thread_local sigjmp_buf back;
static void *volatile where;
static volatile int ready, go;

static void caught(int signal, siginfo_t *info, void *context)
{
    (void)context;
    where = info->si_addr;
    siglongjmp(back, signal);
}

static int touch(volatile char *at)
{
    int signal = sigsetjmp(back, 1);
    if (signal == 0)
        (void)*at;
    return signal;
}

static void *thread(void *unused)
{
    pthread_attr_t own;
    void *stack;
    size_t bytes, guard;
    (void)unused;
    CHECK(pthread_getattr_np(pthread_self(), &own) == 0 && pthread_attr_getstack(&own, &stack, &bytes) == 0);
    CHECK(pthread_attr_getguardsize(&own, &guard) == 0 && guard >= 4096);
    ready = 1;
    await(&go);
    CHECK(touch(stack) == 0);
    CHECK(touch((char *)stack - 8) == SIGSEGV && where == (char *)stack - 8);
    return NULL;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    pthread_t other;
    char *map = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && munmap(map + 4096, 4096) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    await(&ready);
    moment("guarded");
    go = 1;
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(touch(map) == 0 && touch(map + 4096) == SIGSEGV && touch(map + 8192) == 0);
    puts("guarded as before");
    return 0;
}
