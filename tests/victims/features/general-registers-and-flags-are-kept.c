/* All general registers and the direction flag of a computing thread are kept.
 *
 * expect: survive
 * flags: -mno-red-zone -fomit-frame-pointer
 */
#include "check.h"
#include <pthread.h>

static volatile int spinning, go;

static void *thread(void *unused)
{
    uint64_t seen[13], base = 0x0123456789abcdef;
    uint8_t direction;
    (void)unused;
    __asm__ volatile("mov %[base], %%rax\n\t"
                     "lea 1(%%rax), %%rcx\n\tlea 2(%%rax), %%rdx\n\tlea 3(%%rax), %%rsi\n\tlea 4(%%rax), %%rdi\n\t"
                     "lea 5(%%rax), %%r8\n\tlea 6(%%rax), %%r9\n\tlea 7(%%rax), %%r10\n\tlea 8(%%rax), %%r11\n\t"
                     "lea 9(%%rax), %%r12\n\tlea 10(%%rax), %%r13\n\tlea 11(%%rax), %%r14\n\tlea 12(%%rax), %%r15\n\t"
                     "std\n\tmovl $1, %[spinning]\n\t"
                     "1: pause\n\tcmpl $0, %[go]\n\tje 1b\n\t"
                     "mov %%rax, 0+%[seen]\n\tmov %%rcx, 8+%[seen]\n\tmov %%rdx, 16+%[seen]\n\tmov %%rsi, 24+%[seen]\n\t"
                     "mov %%rdi, 32+%[seen]\n\tmov %%r8, 40+%[seen]\n\tmov %%r9, 48+%[seen]\n\tmov %%r10, 56+%[seen]\n\t"
                     "mov %%r11, 64+%[seen]\n\tmov %%r12, 72+%[seen]\n\tmov %%r13, 80+%[seen]\n\t"
                     "mov %%r14, 88+%[seen]\n\tmov %%r15, 96+%[seen]\n\t"
                     "pushfq\n\tpop %%rax\n\tcld\n\tbt $10, %%rax\n\tsetc %[direction]"
                     : [seen] "=m"(seen), [direction] "=m"(direction), [spinning] "=m"(spinning)
                     : [go] "m"(go), [base] "m"(base)
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc",
                       "memory");
    for (int i = 0; i < 13; i++)
        CHECK(seen[i] == base + (uint64_t)i);
    CHECK(direction == 1);
    return NULL;
}

int main(void)
{
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    await(&spinning);
    moment("held in registers");
    go = 1;
    CHECK(pthread_join(other, NULL) == 0);
    puts("registers kept");
    return 0;
}
