/* Memory that the allocator holds as free is dead. Before a checkpoint that the program has requested, the library has it
 * given back to the kernel, so that the checkpoint does not save it. Each allocator has a function for this, under its own
 * name.
 *
 * That function takes the allocator's locks. If the caller is a signal handler that has interrupted the allocator, it
 * could wait for itself. So the library makes the call only if it cannot be in a handler: no signal is blocked, since a
 * handler has at least its own signal blocked, and no handler is installed with SA_NODEFER, which would not block it. */
#include "internal.h"
#include <errno.h>

extern int malloc_trim(size_t) __attribute__((weak));
extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
extern int mi_version(void) __attribute__((weak));
extern void mi_collect(bool) __attribute__((weak));
extern long mi_option_get(int) __attribute__((weak));
extern void mi_option_set(int, long) __attribute__((weak));
extern void *mi_malloc(size_t) __attribute__((weak));
extern void mi_free(void *) __attribute__((weak));

/* mi_option_purge_delay of mimalloc 2.1 and 3, mi_option_decommit_delay of 2.0, mi_option_reset_delay of 1. They share one
 * number, which mimalloc's authors keep stable. */
#define MI_PURGE_DELAY 15
/* The first version in which a thread that asks for it gives back all its free memory. */
#define MI_COLLECTS_ALL 210
/* mimalloc takes memory from the system in segments of 32 MiB. */
#define MI_LARGE (4ul << 20)
#define MI_LARGE_CLEAN_MAX 24
#define MI_SMALL (192ul << 10)
#define MI_SMALL_CLEAN_MAX 200

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
        /* 0 and 1 stand for "default" and "ignored", which are no handlers. */
        if (done == 0 && action.handler > 1 && (action.flags & SA_NODEFER_FLAG))
            return true;
    }
    return false;
}

/* Reports whether any page of a block after the first is in memory. mimalloc writes notes into the first page. */
static bool is_populated(const void *block, size_t bytes)
{
    static unsigned char is_resident[MI_LARGE / PAGE];
    uint64_t first = whole_pages((uint64_t)(uintptr_t)block + 1), end = ((uint64_t)(uintptr_t)block + bytes) & ~(PAGE - 1);
    if (has_failed(call(SYS_mincore, (long)first, (long)(end - first), (long)is_resident, 0, 0, 0)))
        return false;
    for (size_t page = 0; page < (end - first) / PAGE; page++)
        if (is_resident[page] & 1)
            return true;
    return false;
}

/* Allocates blocks from mimalloc until `clean_max` in a row are empty, and frees them all. With the purge delay at 0,
 * mimalloc gives back the free memory beside each block that is allocated or freed. */
static void sweep(size_t bytes, int clean_max)
{
    void **kept = NULL;
    for (int clean = 0; clean < clean_max; clean++) {
        void **block = mi_malloc(bytes);
        if (block == NULL)
            break;
        if (is_populated(block, bytes))
            clean = 0;
        *block = kept;
        kept = block;
    }
    while (kept != NULL) {
        void **next = *kept;
        mi_free(kept);
        kept = next;
    }
}

/* mimalloc keeps free memory for a delay, which begins again whenever more memory becomes free. Version 2.0 keeps it even
 * when it is asked to collect everything. */
static void collect_of_thread(void)
{
    static _Atomic uint32_t is_busy;
    if (!mi_version || !mi_option_get || !mi_option_set || !mi_malloc || !mi_free || atomic_exchange(&is_busy, 1))
        return;
    int error = errno;
    long delay = mi_option_get(MI_PURGE_DELAY);
    mi_option_set(MI_PURGE_DELAY, 0);
    mi_collect(true);
    if (mi_version() < MI_COLLECTS_ALL) {
        sweep(MI_LARGE, MI_LARGE_CLEAN_MAX);
        sweep(MI_SMALL, MI_SMALL_CLEAN_MAX);
        mi_collect(true);
    }
    mi_option_set(MI_PURGE_DELAY, delay);
    errno = error;
    atomic_store(&is_busy, 0);
}

void standfast_give_back_free_memory(void)
{
    if (is_handler_possible())
        return;
    if (mi_collect)
        collect_of_thread();
    standfast_call_allocators();
}

/* Makes mimalloc give back free memory at once, since no thread can make it give back what another one has freed. This
 * costs a system call for each stretch of 64 KiB and more that becomes free, and memory that is used again must be
 * populated again. */
void standfast_hurry_allocators(void)
{
    if (mi_option_set)
        mi_option_set(MI_PURGE_DELAY, 0);
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
