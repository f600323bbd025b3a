/* The table of regions, in the program's own memory. A call appends its region to a log, in some ten nanoseconds. A full
 * log is merged into the base, whose regions are ascending and disjoint.
 *
 * A thread may be stopped between any two instructions, and the supervisor then reads the table. So every change is
 * prepared outside the valid data and published by one store: a new entry by the length of the log, a new base by the
 * number of the current view. */
#include "internal.h"

/* A log of LOG_MIN entries is merged in a fraction of a millisecond. A longer log has at most an eighth of the base's
 * length, so that a region takes at most 16 bytes if there are many. */
#define LOG_MIN 4096u
#define LOG_SHARE 8u
/* More regions would take more than a gigabyte, and the supervisor reads no more. */
#define REGIONS_MAX (1ull << 26)

/* How long a thread waits for its turn. The holder needs microseconds. If its turn never ends (a handler was left by
 * longjmp), the program must not hang. */
#define TURN_SLICE_NANOSECONDS 100000000l
#define TURN_SLICES 50

#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129

_Thread_local struct own own __attribute__((tls_model("initial-exec")));

enum turn { TAKEN, INTERRUPTED, NEVER };

static enum turn take_turn(struct header *header)
{
    uint64_t token = (uint64_t)(uintptr_t)&own, mark = 0;
    for (int slice = 0; slice < TURN_SLICES;) {
        uint64_t seen = 0;
        if (atomic_compare_exchange_strong(&header->lock, &seen, token | mark))
            return TAKEN;
        if ((seen & ~1ull) == token)
            return INTERRUPTED;
        if (!(seen & 1) && !atomic_compare_exchange_strong(&header->lock, &seen, seen | 1))
            continue;
        struct { long seconds, nanoseconds; } limit = {0, TURN_SLICE_NANOSECONDS};
        long waited = call(SYS_futex, (long)&header->lock, FUTEX_WAIT_PRIVATE, (long)(uint32_t)(seen | 1), (long)&limit, 0, 0);
        if (waited == -110 /* ETIMEDOUT */)
            slice++;
        /* Other threads may still wait. */
        mark = 1;
    }
    return NEVER;
}

static void end_turn(struct header *header)
{
    if (atomic_exchange(&header->lock, 0) & 1)
        call(SYS_futex, (long)&header->lock, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static struct view *counting(struct header *header)
{
    return &header->views[atomic_load_explicit(&header->current, memory_order_relaxed) & 1];
}

static int merge_blocked(struct header *header)
{
    struct view *old = counting(header);
    size_t log = atomic_load(&old->log_count), base = old->base_count;
    size_t most = base + 2 * log;
    if (most > REGIONS_MAX)
        return STANDFAST_ERROR_MEMORY;
    size_t buffer_bytes = whole_pages(2 * log * sizeof(struct entry));
    size_t base_bytes = whole_pages((most + PACKED_PIECES_MAX) * sizeof(struct packed_entry));
    struct entry *settled = map_pages(2 * buffer_bytes);
    void *merged = map_pages(base_bytes);
    size_t capacity = base / LOG_SHARE > LOG_MIN ? base / LOG_SHARE : LOG_MIN;
    bool keeps_log = old->log != 0 && old->log_capacity >= capacity / 2;
    size_t log_bytes = whole_pages(capacity * sizeof(struct entry));
    void *fresh = keeps_log ? (void *)(uintptr_t)old->log : map_pages(log_bytes);
    if ((settled == NULL && buffer_bytes > 0) || merged == NULL || fresh == NULL) {
        if (settled != NULL)
            unmap_pages(settled, 2 * buffer_bytes);
        if (merged != NULL)
            unmap_pages(merged, base_bytes);
        if (!keeps_log && fresh != NULL)
            unmap_pages(fresh, log_bytes);
        return STANDFAST_ERROR_MEMORY;
    }
    struct entry *spare = (struct entry *)((char *)settled + buffer_bytes);
    size_t count = log == 0 ? 0 : standfast_settle((const struct entry *)(uintptr_t)old->log, log, settled, spare);
    struct list older = {(const void *)(uintptr_t)old->base, base, true}, newer = {settled, count, false};
    size_t all = standfast_overlay(older, newer, merged, (struct form){true, true});
    size_t kept_bytes = whole_pages((all + 1) * sizeof(struct packed_entry));
    unmap_pages((char *)merged + kept_bytes, base_bytes - kept_bytes);
    unmap_pages(settled, 2 * buffer_bytes);

    struct view *new = &header->views[1 - (atomic_load(&header->current) & 1)];
    new->base = (uint64_t)(uintptr_t)merged;
    new->base_count = all;
    new->log = (uint64_t)(uintptr_t)fresh;
    new->log_capacity = keeps_log ? old->log_capacity : capacity;
    new->made = exact_now();
    atomic_store(&new->log_count, 0);
    atomic_store(&header->current, 1 - (atomic_load(&header->current) & 1));
    if (old->base != 0)
        unmap_pages((void *)(uintptr_t)old->base, whole_pages((old->base_count + 1) * sizeof(struct packed_entry)));
    if (!keeps_log && old->log != 0)
        unmap_pages((void *)(uintptr_t)old->log, whole_pages(old->log_capacity * sizeof(struct entry)));
    return 0;
}

/* Blocks signals until the merge is done. Otherwise the regions that handlers name would wait for long. */
static int merge(struct header *header)
{
    uint64_t all = ~0ull, before;
    call(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, (long)&all, (long)&before, sizeof all, 0, 0);
    int problem = merge_blocked(header);
    call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&before, 0, sizeof before, 0, 0);
    return problem;
}

static int append(struct header *header, struct entry entry)
{
    struct view *view = counting(header);
    uint64_t count = atomic_load_explicit(&view->log_count, memory_order_relaxed);
    if (count == view->log_capacity) {
        int problem = merge(header);
        if (problem)
            return problem;
        view = counting(header);
        count = 0;
    }
    ((struct entry *)(uintptr_t)view->log)[count] = entry;
    atomic_store_explicit(&view->log_count, count + 1, memory_order_release);
    return 0;
}

/* Appends the regions that handlers have named meanwhile. If the program is stopped in between and the regions are applied
 * twice, the result is the same. */
static int append_deferred(struct header *header)
{
    uint64_t count = atomic_load(&header->deferred_count), done = 0;
    while (count > 0) {
        for (; done < count; done++) {
            int problem = append(header, header->deferred[done]);
            if (problem)
                return problem;
        }
        if (atomic_compare_exchange_strong(&header->deferred_count, &count, 0))
            break;
    }
    return 0;
}

int standfast_note(struct header *header, struct entry entry)
{
    switch (take_turn(header)) {
    case INTERRUPTED: {
        uint64_t count = atomic_load(&header->deferred_count);
        if (count == DEFERRED_MAX)
            return STANDFAST_ERROR_BUSY;
        header->deferred[count] = entry;
        atomic_store(&header->deferred_count, count + 1);
        return 0;
    }
    case NEVER:
        return STANDFAST_ERROR_BUSY;
    case TAKEN:
        break;
    }
    int problem = append_deferred(header);
    if (problem == 0)
        problem = append(header, entry);
    if (problem == 0)
        problem = append_deferred(header);
    end_turn(header);
    return problem;
}
