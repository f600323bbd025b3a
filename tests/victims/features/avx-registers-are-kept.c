/* The sixteen 256-bit AVX registers of a computing thread are kept.
 *
 * expect: survive
 * needs: AVX
 * flags: -mavx
 */
#include "check.h"
#include <pthread.h>

enum { BYTES = 512 };
static volatile int spinning, go;
static uint8_t in[BYTES], out[BYTES];

static void *thread(void *unused)
{
    (void)unused;
    __asm__ volatile("vmovups 0(%[in]), %%ymm0\n\t"
                     "vmovups 32(%[in]), %%ymm1\n\t"
                     "vmovups 64(%[in]), %%ymm2\n\t"
                     "vmovups 96(%[in]), %%ymm3\n\t"
                     "vmovups 128(%[in]), %%ymm4\n\t"
                     "vmovups 160(%[in]), %%ymm5\n\t"
                     "vmovups 192(%[in]), %%ymm6\n\t"
                     "vmovups 224(%[in]), %%ymm7\n\t"
                     "vmovups 256(%[in]), %%ymm8\n\t"
                     "vmovups 288(%[in]), %%ymm9\n\t"
                     "vmovups 320(%[in]), %%ymm10\n\t"
                     "vmovups 352(%[in]), %%ymm11\n\t"
                     "vmovups 384(%[in]), %%ymm12\n\t"
                     "vmovups 416(%[in]), %%ymm13\n\t"
                     "vmovups 448(%[in]), %%ymm14\n\t"
                     "vmovups 480(%[in]), %%ymm15\n\t"
                     "movl $1, %[spinning]\n\t"
                     "1: pause\n\tcmpl $0, %[go]\n\tje 1b\n\t"
                     "vmovups %%ymm0, 0(%[out])\n\t"
                     "vmovups %%ymm1, 32(%[out])\n\t"
                     "vmovups %%ymm2, 64(%[out])\n\t"
                     "vmovups %%ymm3, 96(%[out])\n\t"
                     "vmovups %%ymm4, 128(%[out])\n\t"
                     "vmovups %%ymm5, 160(%[out])\n\t"
                     "vmovups %%ymm6, 192(%[out])\n\t"
                     "vmovups %%ymm7, 224(%[out])\n\t"
                     "vmovups %%ymm8, 256(%[out])\n\t"
                     "vmovups %%ymm9, 288(%[out])\n\t"
                     "vmovups %%ymm10, 320(%[out])\n\t"
                     "vmovups %%ymm11, 352(%[out])\n\t"
                     "vmovups %%ymm12, 384(%[out])\n\t"
                     "vmovups %%ymm13, 416(%[out])\n\t"
                     "vmovups %%ymm14, 448(%[out])\n\t"
                     "vmovups %%ymm15, 480(%[out])\n\t"
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
    if (!__builtin_cpu_supports("avx"))
        LACKS("avx");
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
