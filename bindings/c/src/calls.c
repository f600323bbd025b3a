/* The calls of standfast.h and ckpt.h. They find out from the environment whether the program runs under Standfast: in
 * that case its supervisor has put the job's directory there. */
#include "ckpt.h"
#include "internal.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ADDRESS_BITS 48
#define STAMP_LOW_BITS 14
#define STAMP_MAX ((1ull << 30) - 1)
#define MAP_FIXED_NOREPLACE 0x100000l
#define MS_ASYNC 1
#define EINVAL_NUMBER 22
/* An operation that rt_sigprocmask(2) does not know. */
#define NO_SUCH_CHANGE 0x7fffl

/* The variable that holds the job's directory, as an absolute path. */
#define VARIABLE "STANDFAST_DIRECTORY"
/* Variables that stand for options of the run. */
#define CHECK_VARIABLE "STANDFAST_CHECK_EXCLUSIONS"
#define FREE_VARIABLE "STANDFAST_FREE_MEMORY"

/* How long a fork waits for other threads that are connected to the supervisor: the child would keep the connection
 * open. */
#define FORK_WAIT_NANOSECONDS 1000000l
#define FORK_WAITS 200

static struct header *the_header;

struct header *standfast_header(void) { return the_header; }

/* ---- Before main ---- */

static struct header *map_header(void)
{
    for (int number = 0; number < PLACES; number++) {
        long place = (long)PLACE(number);
        long address = call(SYS_mmap, place, PAGE, 3, 0x22 | MAP_FIXED_NOREPLACE, -1, 0);
        if (address == place)
            return (struct header *)address;
        if (!has_failed(address))
            unmap_pages((void *)address, PAGE);
    }
    return NULL;
}

static void before_fork(void)
{
    struct header *header = the_header;
    for (int wait = 0; header && own.asking == 0 && atomic_load(&header->asking) > 0 && wait < FORK_WAITS; wait++) {
        struct { long seconds, nanoseconds; } moment = {0, FORK_WAIT_NANOSECONDS};
        call(SYS_nanosleep, (long)&moment, 0, 0, 0, 0, 0);
    }
}

/* The child has only one of the parent's threads. */
static void in_child(void)
{
    struct header *header = the_header;
    if (header == NULL)
        return;
    atomic_store(&header->asking, own.asking);
    atomic_store(&header->disabled, own.disabled);
    atomic_store(&header->flags, (atomic_load(&header->flags) & FLAG_CHECKING) + own.waiting * ONE_WAITING);
    if ((atomic_load(&header->lock) & ~1ull) != (uint64_t)(uintptr_t)&own)
        atomic_store(&header->lock, 0);
}

__attribute__((constructor)) static void begin(void)
{
    const char *directory = getenv(VARIABLE);
    if (directory == NULL || directory[0] != '/')
        return;
    struct header *header = map_header();
    if (header == NULL)
        return;
    if (strlen(directory) < sizeof header->directory)
        strcpy(header->directory, directory);
    header->version = HEADER_VERSION;
    atomic_store(&header->next_at, ~0ull);
    header->magic_high = MAGIC_HIGH;
    /* The last store: from now on the header is valid. */
    atomic_thread_fence(memory_order_release);
    header->magic_low = MAGIC_LOW;
    the_header = header;
    pthread_atfork(before_fork, NULL, in_child);
    if (getenv(CHECK_VARIABLE))
        standfast_check_begin(header);
    if (getenv(FREE_VARIABLE))
        standfast_start_giver(header);
}

/* ---- Regions ---- */

/* Reports whether all addresses of a range are mapped. */
static bool is_mapped(uint64_t start, uint64_t end)
{
    uint64_t page = start & ~(PAGE - 1);
    /* Loads the line into the cache while the processor enters the kernel. This saves 90 of 340 ns if it was not there. */
    __builtin_prefetch((const void *)(uintptr_t)start);
    /* The call reads eight bytes there before it finds that it does not know the operation. It thus shows that one page is
     * readable, without taking the address space's lock or searching the list of mappings. It takes 200 to 240 ns in all,
     * where msync(2) takes 210 to 300, and does not wait for other threads that map memory. */
    bool is_readable = end <= page + PAGE &&
        call(SYS_rt_sigprocmask, NO_SUCH_CHANGE, (long)(start & ~7ul), 0, 8, 0, 0) == -EINVAL_NUMBER;
    /* Does nothing but report whether the whole range is mapped, readable or not. */
    return is_readable || !has_failed(call(SYS_msync, (long)page, (long)whole_pages(end - page), MS_ASYNC, 0, 0, 0));
}

static int note(const void *address, size_t length, unsigned kind)
{
    uint64_t start = (uint64_t)(uintptr_t)address;
    if (address == NULL)
        return STANDFAST_ERROR_ARGUMENT;
    if (start >> (ADDRESS_BITS - 1) || length >> (ADDRESS_BITS - 1) || (start + length) >> (ADDRESS_BITS - 1))
        return STANDFAST_ERROR_RANGE;
    struct header *header = the_header;
    if (header == NULL || length == 0)
        return 0;
    if (!is_mapped(start, start + length))
        return STANDFAST_ERROR_UNMAPPED;
    uint64_t stamp = kind == READONLY ? atomic_load_explicit(&header->epoch, memory_order_relaxed) : 0;
    if (stamp > STAMP_MAX)
        stamp = STAMP_MAX;
    uint64_t low = stamp & ((1u << STAMP_LOW_BITS) - 1), high = stamp >> STAMP_LOW_BITS;
    struct entry entry = {
        start | low << ADDRESS_BITS | (uint64_t)kind << 62,
        length | high << ADDRESS_BITS,
    };
    int problem = standfast_note(header, entry);
    if (problem == 0)
        standfast_check(header, start, start + length, kind);
    return problem;
}

EXPORTED int standfast_exclude(const void *address, size_t length, int usage)
{
    if (usage != STANDFAST_DEAD && usage != STANDFAST_READONLY)
        return STANDFAST_ERROR_ARGUMENT;
    return note(address, length, (unsigned)usage);
}

EXPORTED int standfast_include(const void *address, size_t length) { return note(address, length, INCLUDED); }

/* ---- Checkpoints ---- */

/* The coarse clock has milliseconds, which is exact enough, and takes half the time. */
static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

EXPORTED int standfast_checkpoint_here(uint64_t *generation)
{
    struct header *header = the_header;
    if (header == NULL)
        return STANDFAST_NOT_TAKEN;
    uint64_t due_at = atomic_load_explicit(&header->due_at, memory_order_relaxed);
    if (due_at != 0 && now() < due_at)
        return STANDFAST_NOT_TAKEN;
    if (atomic_load(&header->disabled) > 0)
        return STANDFAST_ERROR_DISABLED;
    standfast_give_back_free_memory();
    return standfast_ask(header, generation);
}

EXPORTED int standfast_disable(void)
{
    struct header *header = the_header;
    if (header != NULL) {
        atomic_fetch_add(&header->disabled, 1);
        own.disabled++;
    }
    return 0;
}

EXPORTED int standfast_enable(void)
{
    struct header *header = the_header;
    if (header == NULL)
        return 0;
    uint32_t before = atomic_load(&header->disabled);
    do {
        if (before == 0)
            return STANDFAST_ERROR_DISABLED;
    } while (!atomic_compare_exchange_weak(&header->disabled, &before, before - 1));
    /* Another thread may have made the matching call of standfast_disable(). */
    if (own.disabled > 0)
        own.disabled--;
    if (before == 1 && atomic_exchange(&header->pending, 0))
        standfast_tell_enabled(header);
    return 0;
}

EXPORTED int standfast_is_protected(void) { return the_header != NULL; }

EXPORTED int64_t standfast_next(void)
{
    struct header *header = the_header;
    uint64_t next_at = header == NULL ? ~0ull : atomic_load(&header->next_at);
    if (next_at == ~0ull)
        return -1;
    uint64_t present = now();
    return next_at > present ? (int64_t)(next_at - present) : 0;
}

EXPORTED const char *standfast_error_text(int error)
{
    switch (error) {
    case STANDFAST_ERROR_ARGUMENT: return "a null pointer, or a usage that is none";
    case STANDFAST_ERROR_RANGE: return "the region ends beyond the address space, or its length is negative";
    case STANDFAST_ERROR_UNMAPPED: return "not all of the region is mapped";
    case STANDFAST_ERROR_MEMORY: return "there is no memory for the table of regions, or there are too many of them";
    case STANDFAST_ERROR_BUSY: return "too many regions named by a signal handler that has interrupted such a call";
    case STANDFAST_ERROR_UNPROTECTED: return "the program's supervisor does not answer";
    case STANDFAST_ERROR_FAILED: return "the checkpoint could not be taken; the supervisor has told why";
    case STANDFAST_ERROR_DISABLED: return "checkpoints are disabled, or were not when they were to be enabled";
    default: return error < 0 ? "an unknown error" : "no error";
    }
}

/* ---- The libckpt paper's names ---- */

/* A negative size becomes a length beyond the address space. */
EXPORTED int exclude_bytes(const void *address, long size, int usage)
{
    return standfast_exclude(address, (size_t)size, usage);
}

EXPORTED int include_bytes(const void *address, long size) { return standfast_include(address, (size_t)size); }

EXPORTED int checkpoint_here(void) { return standfast_checkpoint_here(NULL); }
