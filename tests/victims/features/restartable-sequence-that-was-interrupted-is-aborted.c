/* A thread that is stopped inside a restartable sequence continues at its abort handler. Otherwise it would go on inside the
 * sequence, and nothing would abort that any more.
 *
 * expect: survive
 * flags: -pthread
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/rseq.h>

static volatile char done;
static volatile int inside, aborts;

/* Stays inside a sequence until done; returns whether it was aborted. */
static int sequence(struct rseq *own)
{
    __asm__ goto(".pushsection __rseq_cs, \"aw\"\n\t"
                 ".balign 32\n"
                 "1:\t.long 0, 0\n\t"
                 ".quad 2f, 3f - 2f, 4f\n\t"
                 ".popsection\n\t"
                 ".pushsection __rseq_failure, \"ax\"\n\t"
                 ".byte 0x0f, 0xb9, 0x3d\n\t"
                 ".long %c[signature]\n"
                 "4:\tjmp %l[aborted]\n\t"
                 ".popsection\n\t"
                 "leaq 1b(%%rip), %%rax\n\t"
                 "movq %%rax, %c[current](%[own])\n"
                 "2:\tpause\n\t"
                 "cmpb $0, %[done]\n\t"
                 "je 2b\n"
                 "3:"
                 :
                 : [own] "r"(own), [done] "m"(done), [signature] "i"(RSEQ_SIG), [current] "i"(offsetof(struct rseq, rseq_cs))
                 : "rax", "memory", "cc"
                 : aborted);
    return 0;
aborted:
    return 1;
}

static void *stay(void *unused)
{
    (void)unused;
    struct rseq *own = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    inside = 1;
    while (sequence(own))
        aborts++;
    return NULL;
}

static void nothing(int signal) { (void)signal; }

int main(void)
{
    pthread_t thread;
    if (__rseq_size == 0)
        LACKS("restartable sequences");
    CHECK(signal(SIGUSR1, nothing) != SIG_ERR && pthread_create(&thread, NULL, stay, NULL) == 0);
    await(&inside);
    for (int life = 0; life < 2; life++) {
        moment("inside");
        /* A signal aborts what the kernel knows to be a sequence. */
        for (int before = aborts; aborts == before; usleep(1000))
            CHECK(pthread_kill(thread, SIGUSR1) == 0);
    }
    done = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("aborted");
    return 0;
}
