/* Guarded pages (MADV_GUARD_INSTALL), and whether a page can be read. */
#ifndef STANDFAST_VICTIM_GUARDS_H
#define STANDFAST_VICTIM_GUARDS_H

#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

static sigjmp_buf out;

static inline void leave(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

static inline int faults(volatile char *byte)
{
    struct sigaction action = {.sa_handler = leave};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    if (sigsetjmp(out, 1) != 0)
        return 1;
    (void)*byte;
    return 0;
}

#endif
