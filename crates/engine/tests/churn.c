/* Changes its memory in every way that a program can, at random, until it is killed: maps, unmaps, moves, protects,
 * discards, writes, lets the kernel write, maps files privately and shared and writes the files beneath, shares memory with
 * threads that stay and threads that come and go, with a second view of it, with children that come and go and with
 * children that live for a while and do all of that themselves; executes itself again. What it computes means nothing; its
 * memory is compared from outside.
 *
 * usage: churn SEED FILE [TURNS] */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, REGIONS = 48, PAGES_MAX = 96, FILE_PAGES = 64, OBJECT_PAGES = 32, CHILDREN = 2, CHILD_TURNS = 6000 };
/* Not known to older headers. */
enum { COLD = 20, PAGEOUT = 21, POPULATE_WRITE = 23, COLLAPSE = 25, GUARD_INSTALL = 102, GUARD_REMOVE = 103, DONTUNMAP = 4 };
/* What lies beneath a region. */
enum kind { ANONYMOUS, OBJECT, OF_FILE, FILE_SHARED, MEMORY_FILE };

struct region {
    unsigned char *at;
    size_t pages;
    enum kind kind;
    int writable;
};

static struct region regions[REGIONS];
static uint64_t state;
static int file, zero, memory_file, is_child;
static pid_t children[CHILDREN];
static const char *path, *own;
static unsigned char *shared_with_thread, *segment;
/* The same memory twice each: without a descriptor, and with one. */
static unsigned char *shared, *shared_too, *in_memory_file;

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

/* How many pages of what lies beneath may be touched. */
static size_t limit_of(const struct region *region)
{
    switch (region->kind) {
    case OF_FILE:
    case FILE_SHARED:
        return FILE_PAGES;
    case MEMORY_FILE:
        return OBJECT_PAGES;
    case OBJECT:
        return region->pages;
    default:
        return PAGES_MAX;
    }
}

static void map_again(struct region *region)
{
    static const enum kind kinds[] = {ANONYMOUS, ANONYMOUS, ANONYMOUS,   ANONYMOUS,   ANONYMOUS,  OF_FILE,
                                      OF_FILE,   OBJECT,    FILE_SHARED, MEMORY_FILE, MEMORY_FILE};
    region->kind = kinds[below(sizeof kinds / sizeof *kinds)];
    region->pages = PAGES_MAX;
    region->pages = 1 + below(limit_of(region));
    int is_of_file = region->kind == OF_FILE || region->kind == FILE_SHARED || region->kind == MEMORY_FILE;
    int flags = region->kind == ANONYMOUS || region->kind == OF_FILE || (region->kind == MEMORY_FILE && below(3) == 0)
                    ? MAP_PRIVATE
                    : MAP_SHARED;
    int from = region->kind == MEMORY_FILE ? memory_file : is_of_file ? file : -1;
    if (!is_of_file)
        flags |= MAP_ANONYMOUS;
    region->at = mmap(NULL, region->pages * PAGE, PROT_READ | PROT_WRITE, flags, from, 0);
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

/* To another size, somewhere else, over another region, or with an empty one left behind. */
static void move(struct region *region)
{
    unsigned char *at;
    struct region *other = &regions[below(REGIONS)];
    /* What lies behind the end of a file or object must not be touched. */
    size_t pages = 1 + below(limit_of(region)), old = region->pages * PAGE;
    switch (below(6)) {
    case 0:
        if (other == region || other->at == NULL || other->pages < region->pages)
            return;
        at = mremap(region->at, old, old, MREMAP_MAYMOVE | MREMAP_FIXED, other->at);
        if (at == MAP_FAILED) {
            /* What was there may be gone all the same, and a part have been moved. */
            unmap(region);
            unmap(other);
            return;
        }
        munmap(at + old, (other->pages - region->pages) * PAGE);
        *other = *region;
        other->at = at;
        region->at = NULL;
        return;
    case 1:
        if (region->kind != ANONYMOUS)
            return;
        at = mremap(region->at, old, old, MREMAP_MAYMOVE | DONTUNMAP, NULL);
        if (at == MAP_FAILED)
            return;
        for (size_t i = 0; i < REGIONS; i++)
            if (regions[i].at == NULL) {
                regions[i] = *region;
                region->at = at;
                return;
            }
        munmap(at, old);
        return;
    default:
        at = mremap(region->at, old, pages * PAGE, MREMAP_MAYMOVE);
        if (at != MAP_FAILED) {
            region->at = at;
            region->pages = pages;
        }
    }
}

static void advise(const struct region *region, unsigned char *at, size_t length)
{
    static const int advice[] = {MADV_DONTNEED, MADV_DONTNEED,  MADV_FREE, MADV_FREE, MADV_HUGEPAGE, MADV_NOHUGEPAGE,
                                 MADV_REMOVE,   POPULATE_WRITE, COLD,      PAGEOUT,   COLLAPSE};
    int chosen = advice[below(sizeof advice / sizeof *advice)];
    /* It would punch a hole into the file of everybody. */
    if (chosen == MADV_REMOVE && region->kind == FILE_SHARED)
        return;
    /* Some of it is refused for some memory. */
    (void)madvise(at, length, chosen);
}

/* Takes access to a part away, in one way or another. */
static void close_off(struct region *region, unsigned char *at, size_t length)
{
    /* What lies beneath guarded pages of shared memory only root can see. */
    if (below(4) == 0 && region->kind == ANONYMOUS) {
        (void)madvise(at, length, GUARD_INSTALL);
    } else {
        mprotect(at, length, below(2) ? PROT_READ : PROT_NONE);
    }
    region->writable = 0;
}

static void open_again(struct region *region)
{
    size_t length = region->pages * PAGE;
    (void)madvise(region->at, length, GUARD_REMOVE);
    region->writable = mprotect(region->at, length, PROT_READ | PROT_WRITE) == 0;
}

static void let_the_kernel_write(unsigned char *at, size_t length)
{
    struct iovec pieces[2] = {{at, length / 2}, {at + length / 2, length - length / 2}};
    ssize_t written = 0;
    switch (below(4)) {
    case 0:
        written = read(zero, at, length);
        break;
    case 1:
        written = pread(file, at, length, 0);
        break;
    case 2:
        written = preadv(file, pieces, 2, (off_t)below(PAGE));
        break;
    default:
        written = getrandom(at, length < 256 ? length : 256, 0);
    }
    if (written < 0)
        abort();
}

static void write_here_and_there(unsigned char *at, size_t length)
{
    for (size_t page = 0; page < length; page += PAGE)
        if (below(3))
            at[page + below(PAGE)] = (unsigned char)next();
}

static void change(struct region *region)
{
    size_t length;
    unsigned char *at = part(region, &length);
    switch (below(16)) {
    case 0:
        unmap(region);
        break;
    case 1:
        close_off(region, at, length);
        break;
    case 2:
    case 3:
        open_again(region);
        break;
    case 4:
    case 5:
    case 6:
        advise(region, at, length);
        break;
    case 7:
    case 8:
        move(region);
        break;
    case 9:
    case 10:
        if (region->writable)
            let_the_kernel_write(at, length);
        break;
    case 11:
        /* Something else takes the place of a part. */
        if (region->kind == ANONYMOUS)
            mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
    default:
        if (region->writable)
            write_here_and_there(at, length);
    }
}

static void write_file(void)
{
    unsigned char bytes[64];
    memset(bytes, (int)below(256), sizeof bytes);
    int into_memory = below(3) == 0;
    size_t limit = (into_memory ? OBJECT_PAGES : FILE_PAGES) * PAGE - sizeof bytes;
    if (pwrite(into_memory ? memory_file : file, bytes, sizeof bytes, (off_t)below(limit)) < 0)
        abort();
}

/* One that comes, writes and goes: into shared memory, or into this one's own by the kernel's hand. */
static void visit(size_t place, unsigned char byte)
{
    size_t which = below(5);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        struct iovec from = {&byte, 1}, to = {shared_with_thread + place, 1};
        unsigned char *own_view;
        int own_file;
        switch (which) {
        case 0:
            shared[place] = byte;
            break;
        case 1:
            segment[place] = byte;
            break;
        case 2:
            /* Forbidden on some machines. */
            (void)process_vm_writev(parent, &from, 1, &to, 1, 0);
            break;
        case 3:
            own_view = mmap(NULL, OBJECT_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file, 0);
            if (own_view != MAP_FAILED)
                own_view[place] = byte;
            break;
        default:
            own_file = open(path, O_RDWR);
            if (own_file < 0 || pwrite(own_file, &byte, 1, (off_t)place) != 1)
                _exit(1);
        }
        _exit(0);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

/* Memory that is written where this program's page tables, or this view of it, do not show it. */
static void write_elsewhere(void)
{
    unsigned char *views[] = {shared, shared_too, in_memory_file, segment};
    size_t place = below(OBJECT_PAGES * PAGE);
    unsigned char byte = (unsigned char)next();
    if (below(8))
        views[below(4)][place] = byte;
    else
        visit(place, byte);
}

static void *write_once(void *place)
{
    *(volatile unsigned char *)place += 1;
    return NULL;
}

static void write_by_thread_that_goes(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, write_once, shared_with_thread + below(64 * PAGE)) == 0)
        pthread_join(thread, NULL);
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

static void begin_again(const char *turns)
{
    char seed[32];
    snprintf(seed, sizeof seed, "%lu", (unsigned long)next());
    execl("/proc/self/exe", own, seed, path, turns, NULL);
    abort();
}

static void churn(uint64_t turns);

/* A child that churns what it has from here, or executes the program again, and ends after a while. */
static void have_child(void)
{
    pid_t *child = &children[below(CHILDREN)], parent = getpid();
    if (*child > 0 && waitpid(*child, NULL, WNOHANG) == 0)
        return;
    /* Those that the program had before it executed itself. */
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    int executes = below(2) == 0;
    uint64_t turns = 1 + below(CHILD_TURNS), own_state = next();
    *child = fork();
    if (*child != 0)
        return;
    is_child = 1;
    state = own_state;
    /* Nobody may be left when the parent is killed. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
    if (executes) {
        char text[32];
        snprintf(text, sizeof text, "%lu", (unsigned long)turns);
        begin_again(text);
    }
    churn(turns);
    _exit(0);
}

static void churn(uint64_t turns)
{
    for (uint64_t turn = 0; turn != turns; turn++) {
        struct region *region = &regions[below(REGIONS)];
        if (region->at == NULL)
            map_again(region);
        else
            change(region);
        if (below(8) == 0)
            write_file();
        if (below(64) == 0)
            write_elsewhere();
        if (below(512) == 0)
            write_by_thread_that_goes();
        if (below(4) == 0)
            churn_heap();
        if (below(16) == 0)
            dig(below(60));
        if (!is_child && below(2048) == 0)
            have_child();
        if (!is_child && below(40000) == 0)
            begin_again(NULL);
        if (below(32) == 0)
            usleep(100);
    }
}

static void prepare(void)
{
    int id = shmget(IPC_PRIVATE, OBJECT_PAGES * PAGE, 0600);
    segment = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    memory_file = memfd_create("churned", MFD_CLOEXEC);
    if (file < 0 || zero < 0 || memory_file < 0 || ftruncate(file, FILE_PAGES * PAGE) != 0 ||
        ftruncate(memory_file, OBJECT_PAGES * PAGE) != 0)
        abort();
    shared_with_thread = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    in_memory_file = mmap(NULL, OBJECT_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file, 0);
    shared = mmap(NULL, OBJECT_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_too = mremap(shared, 0, OBJECT_PAGES * PAGE, MREMAP_MAYMOVE);
    if (segment == (void *)-1 || shared_with_thread == MAP_FAILED || in_memory_file == MAP_FAILED ||
        shared == MAP_FAILED || shared_too == MAP_FAILED)
        abort();
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc < 3)
        return 2;
    own = argv[0];
    path = argv[2];
    state = strtoul(argv[1], NULL, 10);
    is_child = argc > 3;
    prepare();
    for (uintptr_t i = 0; i < 2; i++)
        if (pthread_create(&thread, NULL, scribble, (void *)i) != 0)
            return 4;
    /* Without an end unless one is given: the turns do not come to it. */
    churn(is_child ? strtoul(argv[3], NULL, 10) : UINT64_MAX);
    return 0;
}
