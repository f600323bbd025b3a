/* Holds eight huge pages, and writes one byte to each of them whenever SIGUSR1 comes. Ends with 3 where the kernel gives it
 * no huge pages. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { UNITS = 8, UNIT = 2 << 20, COLLAPSE = 25 };

static unsigned char *memory;
static volatile sig_atomic_t asked;

static void ask(int signal)
{
    (void)signal;
    asked = 1;
}

int main(void)
{
    sigset_t asking, none;
    unsigned char *at = mmap(NULL, (UNITS + 1) * UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return 2;
    memory = (unsigned char *)(((uintptr_t)at + UNIT - 1) / UNIT * UNIT);
    sigemptyset(&none);
    sigemptyset(&asking);
    sigaddset(&asking, SIGUSR1);
    sigprocmask(SIG_BLOCK, &asking, NULL);
    signal(SIGUSR1, ask);
    madvise(memory, UNITS * UNIT, MADV_HUGEPAGE);
    for (size_t place = 0; place < (size_t)UNITS * UNIT; place += 8)
        memcpy(memory + place, &place, sizeof place);
    if (madvise(memory, UNITS * UNIT, COLLAPSE) != 0)
        return 3;
    for (;;) {
        while (!asked)
            sigsuspend(&none);
        asked = 0;
        for (size_t unit = 0; unit < UNITS; unit++)
            memory[unit * UNIT + 12345]++;
    }
}
