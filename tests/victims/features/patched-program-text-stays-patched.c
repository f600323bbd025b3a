/* A program that patches its own code (as tracers and probes do) runs the patched code after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>

__attribute__((noinline, aligned(4096))) static int answer(void)
{
    __asm__ volatile("");
    return 41;
}

int main(void)
{
    unsigned char *code = (unsigned char *)(uintptr_t)answer;
    CHECK(answer() == 41);
    CHECK(mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    for (int i = 0; i < 64; i++)
        if (code[i] == 41) {
            code[i] = 42;
            break;
        }
    CHECK(mprotect(code, 4096, PROT_READ | PROT_EXEC) == 0 && answer() == 42);
    moment("patched");
    CHECK(answer() == 42);
    puts("patched");
    return 0;
}
