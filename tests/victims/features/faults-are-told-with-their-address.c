/* Faults after a restart reach the handler with signal, code and address: SIGSEGV, SIGFPE, SIGILL, SIGTRAP.
 *
 * expect: survive
 */
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

static sigjmp_buf back;
static siginfo_t told;

static void handler(int signal, siginfo_t *info, void *context)
{
    (void)context;
    told = *info;
    siglongjmp(back, signal);
}

int main(void)
{
    static const int signals[] = {SIGSEGV, SIGFPE, SIGILL, SIGTRAP};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    volatile int zero = 0;
    char *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(closed != MAP_FAILED);
    for (int i = 0; i < 4; i++)
        CHECK(sigaction(signals[i], &action, NULL) == 0);
    moment("ready");
    if (sigsetjmp(back, 1) == 0)
        *(volatile char *)closed = 1;
    CHECK(told.si_signo == SIGSEGV && told.si_code == SEGV_ACCERR && told.si_addr == closed);
    if (sigsetjmp(back, 1) == 0)
        *(volatile int *)16 = 1;
    CHECK(told.si_signo == SIGSEGV && told.si_code == SEGV_MAPERR && told.si_addr == (void *)16);
    if (sigsetjmp(back, 1) == 0)
        __asm__ volatile("cltd\n\tidivl %0" : : "r"(zero), "a"(1) : "rdx");
    CHECK(told.si_signo == SIGFPE && told.si_code == FPE_INTDIV);
    if (sigsetjmp(back, 1) == 0)
        __asm__ volatile("ud2");
    CHECK(told.si_signo == SIGILL);
    if (sigsetjmp(back, 1) == 0)
        __asm__ volatile("int3");
    CHECK(told.si_signo == SIGTRAP);
    puts("told");
    return 0;
}
