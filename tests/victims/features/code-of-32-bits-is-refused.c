/* A thread that executes 32-bit code is refused by name: its registers are not those of a 64-bit program.
 *
 * expect: refuse "32-bit"
 * doctor-blind: only the registers tell
 */
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

enum { AT = 0x10000000, CODE_32 = 0x23, DATA = 0x2b };
static volatile char *const page = (char *)AT;

/* Waits in 32-bit code until the byte behind it is set, and comes back. */
static void *visitor(void *unused)
{
    static const unsigned char code[] = {
        0xc6, 0x05, 0x01, 0x01, 0x00, 0x10, 0x01,       /* movb $1, AT+0x101 */
        0x80, 0x3d, 0x00, 0x01, 0x00, 0x10, 0x00,       /* cmpb $0, AT+0x100 */
        0x74, 0xf7,                                     /* je the comparison */
        0xea, 0x80, 0x00, 0x00, 0x10, 0x33, 0x00,       /* ljmp 0x33:AT+0x80 */
    };
    /* mov 9(%rip), %rsp; jmp *11(%rip): interrupts have cut the stack pointer to 32 bits. */
    static const unsigned char back[] = {0x48, 0x8b, 0x25, 9, 0, 0, 0, 0xff, 0x25, 11, 0, 0, 0};
    memcpy((void *)page, code, sizeof code);
    memcpy((void *)(page + 0x80), back, sizeof back);
    struct {
        uint32_t offset;
        uint16_t segment;
    } __attribute__((packed)) there = {AT, CODE_32};
    void **home = (void **)(page + 0x90);
    __asm__ volatile("mov %%rsp, (%0)\n\t"
                     "lea 1f(%%rip), %%rax\n\t"
                     "mov %%rax, 8(%0)\n\t"
                     "mov %w2, %%ds\n\t"
                     "ljmp *(%1)\n"
                     "1:"
                     :
                     : "r"(home), "r"(&there), "r"(DATA)
                     : "rax", "rcx", "r11", "cc", "memory");
    return unused;
}

int main(void)
{
    pthread_t thread;
    int access = PROT_READ | PROT_WRITE | PROT_EXEC;
    CHECK(mmap((void *)page, 4096, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == page);
    CHECK(pthread_create(&thread, NULL, visitor, NULL) == 0);
    while (!page[0x101])
        usleep(200);
    moment("a thread is there");
    page[0x100] = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("back in 64 bits");
    return 0;
}
