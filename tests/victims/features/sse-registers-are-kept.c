/* The sixteen SSE registers of a computing thread are kept.
 *
 * expect: survive
 * needs: SSE2
 * flags: -msse2
 */
#include "check.h"
#include <pthread.h>

enum { BYTES = 256 };
static volatile int spinning, go;
static uint8_t in[BYTES], out[BYTES];

static void *thread(void *unused)
{
    (void)unused;
    __asm__ volatile("movups 0(%[in]), %%xmm0\n\t"
                     "movups 16(%[in]), %%xmm1\n\t"
                     "movups 32(%[in]), %%xmm2\n\t"
                     "movups 48(%[in]), %%xmm3\n\t"
                     "movups 64(%[in]), %%xmm4\n\t"
                     "movups 80(%[in]), %%xmm5\n\t"
                     "movups 96(%[in]), %%xmm6\n\t"
                     "movups 112(%[in]), %%xmm7\n\t"
                     "movups 128(%[in]), %%xmm8\n\t"
                     "movups 144(%[in]), %%xmm9\n\t"
                     "movups 160(%[in]), %%xmm10\n\t"
                     "movups 176(%[in]), %%xmm11\n\t"
                     "movups 192(%[in]), %%xmm12\n\t"
                     "movups 208(%[in]), %%xmm13\n\t"
                     "movups 224(%[in]), %%xmm14\n\t"
                     "movups 240(%[in]), %%xmm15\n\t"
                     "movl $1, %[spinning]\n\t"
                     "1: pause\n\tcmpl $0, %[go]\n\tje 1b\n\t"
                     "movups %%xmm0, 0(%[out])\n\t"
                     "movups %%xmm1, 16(%[out])\n\t"
                     "movups %%xmm2, 32(%[out])\n\t"
                     "movups %%xmm3, 48(%[out])\n\t"
                     "movups %%xmm4, 64(%[out])\n\t"
                     "movups %%xmm5, 80(%[out])\n\t"
                     "movups %%xmm6, 96(%[out])\n\t"
                     "movups %%xmm7, 112(%[out])\n\t"
                     "movups %%xmm8, 128(%[out])\n\t"
                     "movups %%xmm9, 144(%[out])\n\t"
                     "movups %%xmm10, 160(%[out])\n\t"
                     "movups %%xmm11, 176(%[out])\n\t"
                     "movups %%xmm12, 192(%[out])\n\t"
                     "movups %%xmm13, 208(%[out])\n\t"
                     "movups %%xmm14, 224(%[out])\n\t"
                     "movups %%xmm15, 240(%[out])\n\t"
                     ""
                     : [spinning] "=m"(spinning)
                     : [in] "r"(in), [out] "r"(out), [go] "m"(go)
                     : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return NULL;
}

int main(void)
{
    pthread_t other;
    uint64_t state = 11;
    if (!__builtin_cpu_supports("sse2"))
        LACKS("sse2");
    for (int i = 0; i < BYTES; i++)
        in[i] = (uint8_t)next_number(&state);
    for (int i = 0; i < BYTES; i++)
        out[i] = 0;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    await(&spinning);
    moment("held in registers");
    go = 1;
    CHECK(pthread_join(other, NULL) == 0 && memcmp(in, out, BYTES) == 0);
    puts("registers kept");
    return 0;
}
