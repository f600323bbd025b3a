/* Steps on memory: mappings of all kinds, and all that can be done to them. */
#include "interpreter.h"
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
enum { SYS_MSEAL = 462 };

/* The size of a step's mapping is limited, since each observation reads all of them. */
static size_t pages(long count)
{
    return (size_t)(count & 0x3ff) * PAGE;
}

static char *page(long slot, long number)
{
    return mapping(slot) + (number & 0x3ff) * PAGE;
}

/* map MAPPING PAGES PROTECTION FLAGS */
static long do_map(const long *a)
{
    void *at = mmap(mapping(a[0]), pages(a[1]), (int)a[2], (int)a[3] | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    return at == MAP_FAILED ? -1 : 0;
}

/* map-file MAPPING PAGES PROTECTION FLAGS SLOT FIRST-PAGE */
static long do_map_file(const long *a)
{
    void *at = mmap(mapping(a[0]), pages(a[1]), (int)a[2], (int)a[3] | MAP_FIXED_NOREPLACE, fd_of(a[4]), a[5] * PAGE);
    return at == MAP_FAILED ? -1 : 0;
}

struct filling {
    unsigned char *at;
    size_t length;
    long seed;
    size_t done;
};

static void fill(void *argument)
{
    struct filling *filling = argument;
    unsigned char bytes[PAGE];
    for (size_t at = 0; at < filling->length; at += PAGE) {
        if (filling->seed == 0)
            memset(bytes, 0, sizeof bytes);
        else
            make_pattern(bytes, sizeof bytes, filling->seed + (long)at);
        memcpy(filling->at + at, bytes, sizeof bytes);
        filling->done += PAGE;
    }
}

/* fill MAPPING PAGE COUNT SEED. Seed 0 writes zeros. */
static long do_fill(const long *a)
{
    struct filling filling = {(unsigned char *)page(a[0], a[1]), pages(a[2]), a[3], 0};
    int number = guarded(fill, &filling);
    if (number != 0)
        say(" %s", sigabbrev_np(number));
    return (long)filling.done / PAGE;
}

static void poke(void *argument)
{
    struct filling *filling = argument;
    *filling->at = (unsigned char)filling->seed;
}

/* poke MAPPING BYTE VALUE */
static long do_poke(const long *a)
{
    struct filling filling = {(unsigned char *)mapping(a[0]) + (a[1] & 0x3fffff), 1, a[2], 0};
    int number = guarded(poke, &filling);
    if (number != 0)
        say(" %s", sigabbrev_np(number));
    return 0;
}

/* protect MAPPING PAGE COUNT PROTECTION */
static long do_protect(const long *a)
{
    return mprotect(page(a[0], a[1]), pages(a[2]), (int)a[3]);
}

/* advise MAPPING PAGE COUNT ADVICE */
static long do_advise(const long *a)
{
    int result = madvise(page(a[0], a[1]), pages(a[2]), (int)a[3]);
    // The kernel makes no huge page of tracked memory that is in part unwritten, or unchanged since the last checkpoint.
    return a[3] == MADV_COLLAPSE ? 0 : result;
}

/* unmap MAPPING PAGE COUNT */
static long do_unmap(const long *a)
{
    return munmap(page(a[0], a[1]), pages(a[2]));
}

/* Reports whether a range lies in no single mapping. */
static int is_split(const char *at, size_t length)
{
    unsigned long start, end, first = (unsigned long)at;
    char line[4096];
    int whole = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && !whole && fgets(line, sizeof line, maps) != NULL)
        whole = sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= first && first + length <= end;
    if (maps != NULL)
        fclose(maps);
    return !whole;
}

/* move MAPPING PAGE OLD-COUNT NEW-COUNT FLAGS NEW-MAPPING */
static long do_move(const long *a)
{
    int flags = (int)a[4];
    // Only addresses of this program's own are given, since the kernel's choice differs from run to run.
    if ((flags & MREMAP_MAYMOVE) && !(flags & MREMAP_FIXED))
        flags |= MREMAP_FIXED;
    // The kernel forgets the lock of what stays behind, but counts it for ever (VmLck).
    if (flags & MREMAP_DONTUNMAP)
        munlock(page(a[0], a[1]), pages(a[2]));
    // From Linux 6.17 on, several mappings can be moved together, but not while checkpoints track their writes. Older kernels
    // refuse that in any case.
    if (is_split(page(a[0], a[1]), pages(a[2]))) {
        errno = EFAULT;
        return -1;
    }
    void *at = mremap(page(a[0], a[1]), pages(a[2]), pages(a[3]), flags, mapping(a[5]));
    return at == MAP_FAILED ? -1 : 0;
}

/* lock MAPPING PAGE COUNT FLAGS */
static long do_lock(const long *a)
{
    return mlock2(page(a[0], a[1]), pages(a[2]), (unsigned)a[3]);
}

static long do_unlock(const long *a)
{
    return munlock(page(a[0], a[1]), pages(a[2]));
}

static long do_sync(const long *a)
{
    return msync(page(a[0], a[1]), pages(a[2]), (int)a[3]);
}

/* name-memory MAPPING PAGE COUNT NAME */
static long do_name(const long *a)
{
    char name[32];
    snprintf(name, sizeof name, "name %ld", a[3]);
    return prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page(a[0], a[1]), pages(a[2]), a[3] == 0 ? NULL : name);
}

static int keys[4] = {-1, -1, -1, -1};

/* key NUMBER RIGHTS: allocates a protection key. */
static long do_key(const long *a)
{
    int key = pkey_alloc(0, (unsigned)a[1]);
    if (key < 0) {
        // Where the processor has no keys, the kernel says EINVAL the first time.
        errno = ENOSPC;
        return -1;
    }
    keys[a[0] & 3] = key;
    return 0;
}

/* protect-by-key MAPPING PAGE COUNT PROTECTION NUMBER */
static long do_protect_by_key(const long *a)
{
    return pkey_mprotect(page(a[0], a[1]), pages(a[2]), (int)a[3], keys[a[4] & 3]);
}

/* key-rights NUMBER RIGHTS */
static long do_key_rights(const long *a)
{
    return pkey_set(keys[a[0] & 3], (unsigned)a[1]);
}

/* seal-memory MAPPING PAGE COUNT */
static long do_seal(const long *a)
{
    return syscall(SYS_MSEAL, page(a[0], a[1]), pages(a[2]), 0);
}

/* place-memory MAPPING PAGE COUNT POLICY: a NUMA policy for the only node. */
static long do_place(const long *a)
{
    unsigned long nodes = 1;
    return syscall(SYS_mbind, page(a[0], a[1]), pages(a[2]), a[3], a[3] == 0 ? NULL : &nodes, a[3] == 0 ? 0 : 2, 0);
}

const struct operation memory_operations[] = {
    {"map", do_map},
    {"map-file", do_map_file},
    {"fill", do_fill},
    {"poke", do_poke},
    {"protect", do_protect},
    {"advise", do_advise},
    {"unmap", do_unmap},
    {"move", do_move},
    {"lock-memory", do_lock},
    {"unlock-memory", do_unlock},
    {"sync", do_sync},
    {"name-memory", do_name},
    {"key", do_key},
    {"protect-by-key", do_protect_by_key},
    {"key-rights", do_key_rights},
    {"seal-memory", do_seal},
    {"place-memory", do_place},
    {0},
};
