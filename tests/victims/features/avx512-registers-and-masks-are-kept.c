/* The thirty-two 512-bit registers and eight mask registers of a computing thread are kept.
 *
 * expect: survive
 * needs: AVX-512
 * flags: -mavx512f -mavx512bw
 */
#include "check.h"
#include <pthread.h>

enum { BYTES = 2112 };
static volatile int spinning, go;
static uint8_t in[BYTES], out[BYTES];

static void *thread(void *unused)
{
    (void)unused;
    __asm__ volatile("vmovups 0(%[in]), %%zmm0\n\t"
                     "vmovups 64(%[in]), %%zmm1\n\t"
                     "vmovups 128(%[in]), %%zmm2\n\t"
                     "vmovups 192(%[in]), %%zmm3\n\t"
                     "vmovups 256(%[in]), %%zmm4\n\t"
                     "vmovups 320(%[in]), %%zmm5\n\t"
                     "vmovups 384(%[in]), %%zmm6\n\t"
                     "vmovups 448(%[in]), %%zmm7\n\t"
                     "vmovups 512(%[in]), %%zmm8\n\t"
                     "vmovups 576(%[in]), %%zmm9\n\t"
                     "vmovups 640(%[in]), %%zmm10\n\t"
                     "vmovups 704(%[in]), %%zmm11\n\t"
                     "vmovups 768(%[in]), %%zmm12\n\t"
                     "vmovups 832(%[in]), %%zmm13\n\t"
                     "vmovups 896(%[in]), %%zmm14\n\t"
                     "vmovups 960(%[in]), %%zmm15\n\t"
                     "vmovups 1024(%[in]), %%zmm16\n\t"
                     "vmovups 1088(%[in]), %%zmm17\n\t"
                     "vmovups 1152(%[in]), %%zmm18\n\t"
                     "vmovups 1216(%[in]), %%zmm19\n\t"
                     "vmovups 1280(%[in]), %%zmm20\n\t"
                     "vmovups 1344(%[in]), %%zmm21\n\t"
                     "vmovups 1408(%[in]), %%zmm22\n\t"
                     "vmovups 1472(%[in]), %%zmm23\n\t"
                     "vmovups 1536(%[in]), %%zmm24\n\t"
                     "vmovups 1600(%[in]), %%zmm25\n\t"
                     "vmovups 1664(%[in]), %%zmm26\n\t"
                     "vmovups 1728(%[in]), %%zmm27\n\t"
                     "vmovups 1792(%[in]), %%zmm28\n\t"
                     "vmovups 1856(%[in]), %%zmm29\n\t"
                     "vmovups 1920(%[in]), %%zmm30\n\t"
                     "vmovups 1984(%[in]), %%zmm31\n\t"
                     "kmovq 2048(%[in]), %%k0\n\t"
                     "kmovq 2056(%[in]), %%k1\n\t"
                     "kmovq 2064(%[in]), %%k2\n\t"
                     "kmovq 2072(%[in]), %%k3\n\t"
                     "kmovq 2080(%[in]), %%k4\n\t"
                     "kmovq 2088(%[in]), %%k5\n\t"
                     "kmovq 2096(%[in]), %%k6\n\t"
                     "kmovq 2104(%[in]), %%k7\n\t"
                     "movl $1, %[spinning]\n\t"
                     "1: pause\n\tcmpl $0, %[go]\n\tje 1b\n\t"
                     "vmovups %%zmm0, 0(%[out])\n\t"
                     "vmovups %%zmm1, 64(%[out])\n\t"
                     "vmovups %%zmm2, 128(%[out])\n\t"
                     "vmovups %%zmm3, 192(%[out])\n\t"
                     "vmovups %%zmm4, 256(%[out])\n\t"
                     "vmovups %%zmm5, 320(%[out])\n\t"
                     "vmovups %%zmm6, 384(%[out])\n\t"
                     "vmovups %%zmm7, 448(%[out])\n\t"
                     "vmovups %%zmm8, 512(%[out])\n\t"
                     "vmovups %%zmm9, 576(%[out])\n\t"
                     "vmovups %%zmm10, 640(%[out])\n\t"
                     "vmovups %%zmm11, 704(%[out])\n\t"
                     "vmovups %%zmm12, 768(%[out])\n\t"
                     "vmovups %%zmm13, 832(%[out])\n\t"
                     "vmovups %%zmm14, 896(%[out])\n\t"
                     "vmovups %%zmm15, 960(%[out])\n\t"
                     "vmovups %%zmm16, 1024(%[out])\n\t"
                     "vmovups %%zmm17, 1088(%[out])\n\t"
                     "vmovups %%zmm18, 1152(%[out])\n\t"
                     "vmovups %%zmm19, 1216(%[out])\n\t"
                     "vmovups %%zmm20, 1280(%[out])\n\t"
                     "vmovups %%zmm21, 1344(%[out])\n\t"
                     "vmovups %%zmm22, 1408(%[out])\n\t"
                     "vmovups %%zmm23, 1472(%[out])\n\t"
                     "vmovups %%zmm24, 1536(%[out])\n\t"
                     "vmovups %%zmm25, 1600(%[out])\n\t"
                     "vmovups %%zmm26, 1664(%[out])\n\t"
                     "vmovups %%zmm27, 1728(%[out])\n\t"
                     "vmovups %%zmm28, 1792(%[out])\n\t"
                     "vmovups %%zmm29, 1856(%[out])\n\t"
                     "vmovups %%zmm30, 1920(%[out])\n\t"
                     "vmovups %%zmm31, 1984(%[out])\n\t"
                     "kmovq %%k0, 2048(%[out])\n\t"
                     "kmovq %%k1, 2056(%[out])\n\t"
                     "kmovq %%k2, 2064(%[out])\n\t"
                     "kmovq %%k3, 2072(%[out])\n\t"
                     "kmovq %%k4, 2080(%[out])\n\t"
                     "kmovq %%k5, 2088(%[out])\n\t"
                     "kmovq %%k6, 2096(%[out])\n\t"
                     "kmovq %%k7, 2104(%[out])\n\t"
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
    if (!__builtin_cpu_supports("avx512bw"))
        LACKS("avx512bw");
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
