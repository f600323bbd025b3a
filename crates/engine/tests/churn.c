/* Changes its memory in every way that a program can, at random, until it is killed: maps, unmaps, moves, protects,
 * discards, writes, lets the kernel write, maps files privately and writes the files beneath, shares memory with threads,
 * with a second view of it and with children that come and go, executes itself anew. What it computes means nothing; its memory is compared from outside.
 *
 * usage: churn SEED FILE */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, REGIONS = 48, PAGES_MAX = 96, FILE_PAGES = 64 };

struct region {
    unsigned char *at;
    size_t pages;
    int of_file, of_object, writable;
};

static struct region regions[REGIONS];
static uint64_t state;
static int file, zero;
static const char *path, *own;
static unsigned char *shared_with_thread, *shared, *shared_too;

static uint64_t next(void)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(size_t limit) { return next() % limit; }

/* Writes at random all the while, from a thread of its own. */
static void *scribble(void *unused)
{
    uint64_t own_state = (uintptr_t)unused + 1;
    for (;;) {
        own_state = own_state * 6364136223846793005u + 1442695040888963407u;
        ((volatile unsigned char *)shared_with_thread)[(own_state >> 33) % (64 * PAGE)] = (unsigned char)own_state;
        if (own_state >> 54 == 0)
            usleep(200);
    }
    return NULL;
}

static void map_anew(struct region *region)
{
    region->pages = 1 + below(PAGES_MAX);
    region->of_file = below(4) == 0;
    if (region->of_file)
        region->pages = 1 + below(FILE_PAGES);
    region->of_object = !region->of_file && below(6) == 0;
    int kind = region->of_file ? MAP_PRIVATE : MAP_ANONYMOUS | (region->of_object ? MAP_SHARED : MAP_PRIVATE);
    region->at = mmap(NULL, region->pages * PAGE, PROT_READ | PROT_WRITE, kind, region->of_file ? file : -1, 0);
    region->writable = region->at != MAP_FAILED;
    if (!region->writable)
        region->at = NULL;
}

static void unmap(struct region *region)
{
    munmap(region->at, region->pages * PAGE);
    region->at = NULL;
}

/* Some adjoining pages of a region. */
static unsigned char *part(const struct region *region, size_t *length)
{
    size_t first = below(region->pages);
    *length = (1 + below(region->pages - first)) * PAGE;
    return region->at + first * PAGE;
}

static void change(struct region *region)
{
    size_t length, pages;
    unsigned char *at = part(region, &length);
    switch (below(16)) {
    case 0:
        unmap(region);
        break;
    case 1:
        mprotect(region->at, region->pages * PAGE, PROT_READ);
        region->writable = 0;
        break;
    case 2:
        mprotect(region->at, region->pages * PAGE, PROT_NONE);
        region->writable = 0;
        break;
    case 3:
    case 4:
        mprotect(region->at, region->pages * PAGE, PROT_READ | PROT_WRITE);
        region->writable = 1;
        break;
    case 5:
    case 6:
        madvise(at, length, below(2) ? MADV_DONTNEED : MADV_FREE);
        break;
    case 7:
    case 8:
        /* What lies behind the end of a file or object must not be touched. */
        pages = 1 + below(region->of_file ? FILE_PAGES : region->of_object ? region->pages : PAGES_MAX);
        at = mremap(region->at, region->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE);
        if (at != MAP_FAILED) {
            region->at = at;
            region->pages = pages;
        }
        break;
    case 9:
        if (region->writable && read(zero, at, length) < 0)
            abort();
        break;
    case 10:
        if (region->writable && pread(file, at, length, 0) < 0)
            abort();
        break;
    case 11:
        madvise(at, length, below(2) ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        break;
    default:
        for (size_t page = 0; region->writable && page < length; page += PAGE)
            if (below(3))
                at[page + below(PAGE)] = (unsigned char)next();
    }
}

static void write_file(void)
{
    unsigned char bytes[64];
    memset(bytes, (int)below(256), sizeof bytes);
    if (pwrite(file, bytes, sizeof bytes, (off_t)below(FILE_PAGES * PAGE - 64)) < 0)
        abort();
}

/* Memory that is written where this program's page tables, or this view of it, do not show it. */
static void write_elsewhere(void)
{
    size_t place = below(32 * PAGE);
    unsigned char byte = (unsigned char)next();
    if (below(8)) {
        (below(2) ? shared : shared_too)[place] = byte;
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        shared[place] = byte;
        _exit(0);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

static void churn_heap(void)
{
    static void *pieces[64];
    size_t place = below(64);
    free(pieces[place]);
    pieces[place] = malloc(below(40000) + 1);
    if (pieces[place])
        *(unsigned char *)pieces[place] = (unsigned char)next();
}

static void dig(size_t depth)
{
    volatile unsigned char stack[3000];
    stack[below(sizeof stack)] = (unsigned char)next();
    if (depth > 0)
        dig(depth - 1);
}

static void begin_anew(void)
{
    char seed[32];
    snprintf(seed, sizeof seed, "%lu", (unsigned long)next());
    execl("/proc/self/exe", own, seed, path, NULL);
    abort();
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc != 3)
        return 2;
    own = argv[0];
    path = argv[2];
    state = strtoul(argv[1], NULL, 10);
    file = open(path, O_RDWR | O_CREAT, 0644);
    zero = open("/dev/zero", O_RDONLY);
    shared_with_thread = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (file < 0 || zero < 0 || ftruncate(file, FILE_PAGES * PAGE) != 0 || shared_with_thread == MAP_FAILED)
        return 3;
    shared = mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_too = mremap(shared, 0, 32 * PAGE, MREMAP_MAYMOVE);
    if (shared == MAP_FAILED || shared_too == MAP_FAILED)
        return 3;
    for (uintptr_t i = 0; i < 2; i++)
        if (pthread_create(&thread, NULL, scribble, (void *)i) != 0)
            return 4;
    for (uint64_t turn = 0;; turn++) {
        struct region *region = &regions[below(REGIONS)];
        if (region->at == NULL)
            map_anew(region);
        else
            change(region);
        if (below(8) == 0)
            write_file();
        if (below(64) == 0)
            write_elsewhere();
        if (below(4) == 0)
            churn_heap();
        if (below(16) == 0)
            dig(below(60));
        if (below(200000) == 0)
            begin_anew();
        if (below(32) == 0)
            usleep(100);
    }
}
