/* Memory that the allocator holds as free is dead: it is given back to the kernel before a checkpoint that the program has
 * asked for, so that nothing of it is saved. The allocators do that themselves, on a call that each has its own name for.
 *
 * Such a call takes the allocator's locks. Where the caller may be a signal handler that has interrupted the allocator, it
 * could wait for itself, so it is made only where that cannot be: no signal is blocked, as all handlers have at least their
 * own, and no handler is installed that would not have (SA_NODEFER). */
#include "internal.h"

extern int malloc_trim(size_t) __attribute__((weak));
extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
extern void mi_collect(bool) __attribute__((weak));

#define SIGNALS 64
#define SA_NODEFER_FLAG 0x40000000ul

struct kernel_action {
    uint64_t handler, flags, restorer, mask;
};

static bool is_handler_possible(void)
{
    uint64_t blocked = ~0ull;
    if (call(SYS_rt_sigprocmask, 0, 0, (long)&blocked, sizeof blocked, 0, 0) != 0 || blocked != 0)
        return true;
    for (long signal = 1; signal <= SIGNALS; signal++) {
        struct kernel_action action = {0, 0, 0, 0};
        long done = call(SYS_rt_sigaction, signal, 0, (long)&action, sizeof action.mask, 0, 0);
        /* 0 and 1 are no handlers: default and ignored. */
        if (done == 0 && action.handler > 1 && (action.flags & SA_NODEFER_FLAG))
            return true;
    }
    return false;
}

void standfast_give_back_free_memory(void)
{
    if (!is_handler_possible())
        standfast_call_allocators();
}

void standfast_call_allocators(void)
{
    if (mallctl)
        mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
    if (mi_collect)
        mi_collect(true);
    if (malloc_trim)
        malloc_trim(0);
}
