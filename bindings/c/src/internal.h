/* Declarations that the library's files share, and the memory that the supervisor reads and writes while the program is
 * frozen.
 *
 * The code allocates only by mmap, takes no lock that a signal handler could wait for without end, and makes system calls
 * directly, so that it never changes errno. */
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

/* The possible addresses of the header. The library takes the first free one, so that other processes can find the header
 * by themselves. */
#define PLACES 8
#define PLACE(number) (0x3f5300000000ull + (uint64_t)(number) * 0x100000000ull)

/* A region, in 16 bytes. */
struct entry {
    /* Bits 0 to 47: first address. 48 to 61: low part of the stamp. 62 and 63: kind. */
    uint64_t start;
    /* Bits 0 to 47: length in bytes. 48 to 63: high part of the stamp. */
    uint64_t length;
};

/* A region of the base, in 14 bytes. Together with a log of an eighth of the base's length, a region takes 16 bytes. */
struct __attribute__((packed)) packed_entry {
    uint64_t start;
    /* A longer region takes several entries. */
    uint32_t length;
    /* High part of the stamp. */
    uint16_t stamp;
};

#define PACKED_LENGTH_MAX 0xfffff000ull
/* The most additional entries that such regions can need in the whole address space. */
#define PACKED_PIECES_MAX (1ul << 16)

_Static_assert(sizeof(struct packed_entry) == 14, "layout");

/* Regions in either form, ascending and disjoint. */
struct list {
    const void *entries;
    size_t count;
    bool is_packed;
};

/* Kinds. The stamp of a read-only region is the number of checkpoints that were taken before the region was excluded. */
enum { INCLUDED = 0, DEAD = STANDFAST_DEAD, READONLY = STANDFAST_READONLY };

/* All regions: those in `base`, ascending and disjoint, overridden by those in `log`, in the order of the calls. */
struct view {
    uint64_t base, base_count;
    uint64_t log;
    _Atomic uint64_t log_count;
    uint64_t log_capacity;
    /* The time at which the base was made, which identifies it: CLOCK_MONOTONIC, nanoseconds. A finished base does not
     * change, and neither do the entries in the log. */
    uint64_t made;
};

/* The most regions that signal handlers may name while they interrupt a call under the lock. They apply after the log. */
#define DEFERRED_MAX 16

/* Flags: the library checks exclusions; a thread of the library gives back free memory on request. Above them is the number
 * of threads that wait for a checkpoint at their present point, in units of ONE_WAITING. */
enum { FLAG_CHECKING = 1, FLAG_GIVING = 2, ONE_WAITING = 1 << 16 };

struct header {
    uint64_t magic_low, magic_high;
    uint32_t version;
    /* The index of the current view. */
    _Atomic uint32_t current;
    /* The holder of the lock: 0, or the address of that thread's `own`, with 1 added if others wait. */
    _Atomic uint64_t lock;
    struct view views[2];
    _Atomic uint64_t deferred_count;
    struct entry deferred[DEFERRED_MAX];
    /* Number of threads connected to the supervisor; number of open sections in which checkpoints are disabled. */
    _Atomic uint32_t asking, disabled;
    /* Set by the supervisor if a checkpoint was wanted while checkpoints were disabled. */
    _Atomic uint32_t pending;
    _Atomic uint32_t flags;
    /* The supervisor writes the rest in one go. This field counts the outcomes that it has reported. */
    _Atomic uint32_t sequence;
    /* The last outcome: a standfast_return or a standfast_error. */
    _Atomic int32_t outcome;
    /* The generation of that outcome. */
    _Atomic uint64_t generation;
    /* Number of checkpoints of this process's memory. */
    _Atomic uint64_t epoch;
    /* The time from which checkpoints are taken on request, and the time of the next one without a request:
     * CLOCK_MONOTONIC, nanoseconds; all ones for never. */
    _Atomic uint64_t due_at, next_at;
    /* How often the supervisor has asked the program to give back free memory, and how often the program has done so. */
    _Atomic uint32_t give_wanted, give_done;
    /* If exclusions are checked: a ring of RECORDS records that name the callers, and the number of records written. */
    uint64_t records;
    _Atomic uint64_t record_count;
    /* The job's directory: an absolute path that ends with a zero. */
    char directory[PAGE - 472];
};

/* A record of the caller that excluded a region as read-only. */
#define RECORDS (1u << 14)
#define FRAMES 12

struct record {
    uint64_t start, end;
    uint32_t frame_count;
    /* Whether some of its pages are write-protected. */
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

/* ---- Per-thread data. ---- */

struct own {
    /* The thread's share of the header's counts. */
    uint32_t asking, disabled, waiting;
    /* The address of this struct identifies the thread, so its last bit must be free. */
} __attribute__((aligned(16)));

extern HIDDEN _Thread_local struct own own __attribute__((tls_model("initial-exec")));

/* ---- The files of the library. ---- */

/* Returns the header, or null if the program does not run under Standfast. */
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
/* Puts the newer regions on top of the older ones, in the requested form; leaves out included regions if `drops_included`.
 * Returns the number of resulting regions. */
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

/* Maps fresh memory. Returns null if there is none. */
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

/* Returns the time of CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t exact_now(void)
{
    struct { long seconds, nanoseconds; } time = {0, 0};
    call(SYS_clock_gettime, 1, (long)&time, 0, 0, 0, 0);
    return (uint64_t)time.seconds * 1000000000u + (uint64_t)time.nanoseconds;
}

static inline size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) & ~(PAGE - 1); }

#endif
