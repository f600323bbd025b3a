/* What the files of the library share, and the memory that the supervisor reads and writes while the program stands still.
 *
 * Nothing here allocates but by mmap, takes a lock that a signal handler could find taken for ever, or changes errno: system
 * calls are made directly. */
#ifndef STANDFAST_INTERNAL_H
#define STANDFAST_INTERNAL_H

#include "standfast.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>

#define EXPORTED __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))

/* ---- The header. Its layout is a contract with crates/core/src/directions: change both, and the version. ---- */

#define PAGE 4096ul
#define HEADER_VERSION 3u
#define MAGIC_LOW 0x736166646e617473ull  /* "standfas" */
#define MAGIC_HIGH 0x31302d62696c2d74ull /* "t-lib-01" */

/* Where the header may lie. The first of these addresses that is free is taken, so that whoever looks from outside finds it
 * without having been told. */
#define PLACES 8
#define PLACE(number) (0x3f5300000000ull + (uint64_t)(number) * 0x100000000ull)

/* A region in 16 bytes. */
struct entry {
    /* Bits 0 to 47: first address. 48 to 61: low part of the stamp. 62 and 63: kind. */
    uint64_t start;
    /* Bits 0 to 47: length in bytes. 48 to 63: high part of the stamp. */
    uint64_t length;
};

/* The same in 14 bytes, as it stands in the base: with the log behind it, an eighth as long, a region takes 16. */
struct __attribute__((packed)) packed_entry {
    uint64_t start;
    /* Longer regions are several. */
    uint32_t length;
    /* High part of the stamp. */
    uint16_t stamp;
};

#define PACKED_LENGTH_MAX 0xfffff000ull
/* So many more may come of regions that are longer, in all of the address space. */
#define PACKED_PIECES_MAX (1ul << 16)

_Static_assert(sizeof(struct packed_entry) == 14, "layout");

/* Some regions, ascending and apart, in either form. */
struct list {
    const void *entries;
    size_t count;
    bool is_packed;
};

/* Kinds. A stamp says of a read-only region after how many checkpoints that was said. */
enum { INCLUDED = 0, DEAD = STANDFAST_DEAD, READONLY = STANDFAST_READONLY };

/* All regions: those of `base`, ascending and apart, then what of `log` says otherwise, in the order of time. */
struct view {
    uint64_t base, base_count;
    uint64_t log;
    _Atomic uint64_t log_count;
    uint64_t log_capacity;
    /* When the base was made, by which it is told from others: CLOCK_MONOTONIC, nanoseconds. It does not change any more, nor
     * does what stands in the log. */
    uint64_t made;
};

/* Regions named by a signal handler that has interrupted a call under the lock. They come behind the log. */
#define DEFERRED_MAX 16

/* Exclusions are checked; a thread gives back free memory when it is asked to. */
enum { FLAG_CHECKING = 1, FLAG_GIVING = 2 };

struct header {
    uint64_t magic_low, magic_high;
    uint32_t version;
    /* Which of the views counts. */
    _Atomic uint32_t current;
    /* Whose turn it is: 0, or the address of the thread's own data, with 1 added where others wait. */
    _Atomic uint64_t lock;
    struct view views[2];
    _Atomic uint64_t deferred_count;
    struct entry deferred[DEFERRED_MAX];
    /* Threads that are connected with the supervisor; sections in which checkpoints are disabled. */
    _Atomic uint32_t asking, disabled;
    /* Set by the supervisor: a checkpoint was wanted while they were. */
    _Atomic uint32_t pending;
    _Atomic uint32_t flags;
    /* The rest is written by the supervisor, in one go. Counts the outcomes told. */
    _Atomic uint32_t sequence;
    /* The last outcome: a standfast_return or a standfast_error. */
    _Atomic int32_t outcome;
    /* Its generation. */
    _Atomic uint64_t generation;
    /* Checkpoints of this process's memory. */
    _Atomic uint64_t epoch;
    /* From when on checkpoints are taken on request, and when the next one is taken anyhow: CLOCK_MONOTONIC, nanoseconds;
     * all ones for never. */
    _Atomic uint64_t due_at, next_at;
    /* How often free memory was to be given back, which the supervisor counts, and how often it has been. */
    _Atomic uint32_t give_wanted, give_done;
    /* Where exclusions are checked: who has excluded what, a ring of RECORDS, and how many have been written. */
    uint64_t records;
    _Atomic uint64_t record_count;
    /* The job's directory, absolute, with a zero behind it. */
    char directory[PAGE - 472];
};

/* Who has excluded a region as read-only. */
#define RECORDS (1u << 14)
#define FRAMES 12

struct record {
    uint64_t start, end;
    uint32_t frame_count;
    /* Whether some of its pages may not be written. */
    uint32_t is_guarded;
    void *frames[FRAMES];
};

_Static_assert(offsetof(struct header, views) == 32, "layout");
_Static_assert(offsetof(struct header, deferred_count) == 128, "layout");
_Static_assert(offsetof(struct header, asking) == 392, "layout");
_Static_assert(offsetof(struct header, sequence) == 408, "layout");
_Static_assert(offsetof(struct header, generation) == 416, "layout");
_Static_assert(offsetof(struct header, epoch) == 424, "layout");
_Static_assert(offsetof(struct header, due_at) == 432, "layout");
_Static_assert(offsetof(struct header, give_wanted) == 448, "layout");
_Static_assert(offsetof(struct header, records) == 456, "layout");
_Static_assert(sizeof(struct record) == 120, "layout");
_Static_assert(offsetof(struct header, directory) == 472 && sizeof(struct header) == PAGE, "layout");

/* ---- What a thread has of its own. ---- */

struct own {
    /* Its part in the header's numbers. */
    uint32_t asking, disabled;
    /* Its place names the thread, so the last bit of its address must be free. */
} __attribute__((aligned(16)));

extern HIDDEN _Thread_local struct own own __attribute__((tls_model("initial-exec")));

/* ---- The files of the library. ---- */

/* The header; null where the program does not run under Standfast. */
HIDDEN struct header *standfast_header(void);
HIDDEN int standfast_note(struct header *header, struct entry entry);
HIDDEN int standfast_ask(struct header *header, uint64_t *generation);
HIDDEN void standfast_tell_enabled(struct header *header);
HIDDEN void standfast_give_back_free_memory(void);
HIDDEN void standfast_call_allocators(void);
HIDDEN void standfast_hurry_allocators(void);
HIDDEN void standfast_start_giver(struct header *header);
HIDDEN void standfast_check_begin(struct header *header);
HIDDEN void standfast_check(struct header *header, uint64_t start, uint64_t end, unsigned kind);
/* Puts the newer regions on top of the older ones, in the form that is asked for; without those that are included where
 * `drops_included`. Returns how many there are. */
struct form {
    bool is_packed, drops_included;
};
HIDDEN size_t standfast_overlay(struct list older, struct list newer, void *out, struct form form);
HIDDEN size_t standfast_settle(const struct entry *log, size_t count, struct entry *out, struct entry *spare);

/* ---- System calls. ---- */

static inline long call(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline bool has_failed(long result) { return (unsigned long)result > -4096ul; }

/* Fresh memory; null where there is none. */
static inline void *map_pages(size_t bytes)
{
    long address = call(SYS_mmap, 0, (long)bytes, 3 /* read, write */, 0x22 /* private, anonymous */, -1, 0);
    return has_failed(address) ? NULL : (void *)address;
}

static inline void unmap_pages(void *address, size_t bytes)
{
    if (bytes > 0)
        call(SYS_munmap, (long)address, (long)bytes, 0, 0, 0, 0);
}

/* CLOCK_MONOTONIC, nanoseconds. */
static inline uint64_t exact_now(void)
{
    struct { long seconds, nanoseconds; } time = {0, 0};
    call(SYS_clock_gettime, 1, (long)&time, 0, 0, 0, 0);
    return (uint64_t)time.seconds * 1000000000u + (uint64_t)time.nanoseconds;
}

static inline size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) & ~(PAGE - 1); }

#endif
