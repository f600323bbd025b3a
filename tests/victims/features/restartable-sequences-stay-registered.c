/* Restartable sequences stay registered for every thread: the kernel keeps the processor's number up to date.
 *
 * expect: survive
 * needs: rseq
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/rseq.h>
#include <sys/syscall.h>

static volatile int ready, go;

static void check_registered(void)
{
    volatile struct rseq *own = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    /* The kernel writes it at the next preemption or migration: both processors agree, at the latest, after a sleep. */
    for (;;) {
        own->cpu_id = 0xfffffffe;
        own->cpu_id_start = 0;
        usleep(1000);
        if (own->cpu_id == (uint32_t)sched_getcpu() || own->cpu_id != 0xfffffffe)
            break;
    }
    CHECK(own->cpu_id < 100000);
    /* A second registration of the same area says that it is registered. */
    errno = 0;
    CHECK(syscall(SYS_rseq, own, 32, 0, RSEQ_SIG) == -1 && errno == EBUSY);
}

static void *thread(void *unused)
{
    (void)unused;
    check_registered();
    ready = 1;
    await(&go);
    check_registered();
    return NULL;
}

int main(void)
{
    pthread_t other;
    if (__rseq_size == 0)
        LACKS("restartable sequences");
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    await(&ready);
    moment("registered");
    go = 1;
    check_registered();
    CHECK(pthread_join(other, NULL) == 0);
    puts("registered");
    return 0;
}
