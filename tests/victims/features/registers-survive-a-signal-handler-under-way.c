/* Registers that the kernel saved for a signal handler which is under way come back when it returns after a restart.
 *
 * expect: survive
 * flags: -mno-red-zone -mavx
 * needs: AVX
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>

static volatile int spinning, go;
static uint8_t in[32], out[32];

static void handler(int signal)
{
    (void)signal;
    __asm__ volatile("vpxor %%xmm7, %%xmm7, %%xmm7\n\tvzeroall" ::: "memory");
    moment("in the handler");
    go = 1;
}

static void *thread(void *unused)
{
    uint64_t r12;
    (void)unused;
    __asm__ volatile("vmovups (%[in]), %%ymm7\n\tmov $0x123456789abc, %%r12\n\tmovl $1, %[spinning]\n\t"
                     "1: pause\n\tcmpl $0, %[go]\n\tje 1b\n\t"
                     "vmovups %%ymm7, (%[out])\n\tmov %%r12, %[r12]"
                     : [spinning] "=m"(spinning), [r12] "=m"(r12)
                     : [in] "r"(in), [out] "r"(out), [go] "m"(go)
                     : "memory", "cc", "r12", "xmm7");
    CHECK(r12 == 0x123456789abc && memcmp(in, out, sizeof in) == 0);
    return NULL;
}

int main(void)
{
    pthread_t other;
    if (!__builtin_cpu_supports("avx"))
        LACKS("avx");
    for (unsigned i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(i * 7 + 1);
    CHECK(signal(SIGUSR1, handler) != SIG_ERR && pthread_create(&other, NULL, thread, NULL) == 0);
    await(&spinning);
    CHECK(pthread_kill(other, SIGUSR1) == 0 && pthread_join(other, NULL) == 0);
    puts("all came back");
    return 0;
}
