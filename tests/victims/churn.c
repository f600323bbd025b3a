/* Changes its memory in every way that a program can, in an order that follows from a seed, and folds what it finds there
 * into a checksum: a single page that is not what it was written to be changes the result. Maps, unmaps, moves, protects
 * and discards; writes itself, by threads, by children that come and go, by a second view of the same memory, by the
 * kernel into a buffer, by write(2) into a file that is mapped; executes itself again.
 *
 * With an odd number of turns it has children, executes itself again and maps no file, with an even one the other way
 * round: a child that is about to die after its parent would still hold the file, and a program that has just been
 * executed does not hold it yet, which refuses a restart.
 *
 * usage: churn [SEED [TURNS [TURN SUM]]] */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { PAGE = 4096, REGIONS = 24, PAGES_MAX = 48, FILE_PAGES = 48, THREADS = 2 };
enum kind { NOTHING, PRIVATE, OF_FILE, SHARED };

struct region {
    enum kind kind;
    unsigned char *at, *second;
    size_t pages;
};

static struct region regions[REGIONS];
static uint64_t numbers, sum = FOLD_START;
static int base, mapped_file, ends[2], has_children;
static unsigned char *of_mapped_file;

static size_t below(size_t limit) { return next_number(&numbers) % limit; }

/* What the threads are told to write. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t told, done;
    unsigned char *at;
    size_t length;
    uint64_t seed;
    int for_thread, left;
} order = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0, 0, -1, 0};

/* Some words of each page, so that most pages come to hold something. */
static void scatter(unsigned char *at, size_t length, uint64_t seed)
{
    for (size_t page = 0; page < length; page += PAGE)
        for (int word = 0; word < 3; word++) {
            uint64_t number = next_number(&seed);
            memcpy(at + page + number % (PAGE - 8), &number, sizeof number);
        }
}

static void *obey(void *name)
{
    int own = (int)(intptr_t)name;
    CHECK(pthread_mutex_lock(&order.lock) == 0);
    for (;;) {
        while (order.for_thread != own)
            CHECK(pthread_cond_wait(&order.told, &order.lock) == 0);
        scatter(order.at, order.length, order.seed);
        order.for_thread = -1;
        CHECK(pthread_cond_signal(&order.done) == 0);
    }
    return NULL;
}

static void write_by_thread(unsigned char *at, size_t length)
{
    CHECK(pthread_mutex_lock(&order.lock) == 0);
    order.at = at;
    order.length = length;
    order.seed = next_number(&numbers);
    order.for_thread = (int)below(THREADS);
    CHECK(pthread_cond_broadcast(&order.told) == 0);
    while (order.for_thread != -1)
        CHECK(pthread_cond_wait(&order.done, &order.lock) == 0);
    CHECK(pthread_mutex_unlock(&order.lock) == 0);
}

static void write_by_child(unsigned char *at, size_t length)
{
    int status;
    uint64_t seed = next_number(&numbers);
    pid_t own = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* One that outlives its parent would hold what the next life needs. */
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        if (getppid() != own)
            _exit(1);
        scatter(at, length, seed);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0)
        CHECK(errno == EINTR);
    CHECK(status == 0);
}

static void write_by_kernel(unsigned char *at, size_t length)
{
    unsigned char bytes[PAGE];
    size_t amount = length < PAGE ? length : PAGE;
    memset(bytes, 0, sizeof bytes);
    scatter(bytes, PAGE, next_number(&numbers));
    CHECK(write(ends[1], bytes, amount) == (ssize_t)amount);
    for (size_t got = 0; got < amount;) {
        ssize_t piece = read(ends[0], at + got, amount - got);
        CHECK(piece > 0 || errno == EINTR);
        got += piece > 0 ? (size_t)piece : 0;
    }
}

static void map_again(struct region *region)
{
    region->kind = 1 + below(3);
    region->pages = 1 + below(region->kind == OF_FILE ? FILE_PAGES : PAGES_MAX);
    int flags = region->kind == SHARED ? MAP_SHARED | MAP_ANONYMOUS : MAP_PRIVATE;
    if (region->kind == PRIVATE)
        flags |= MAP_ANONYMOUS | (below(4) ? 0 : MAP_NORESERVE);
    int file = region->kind == OF_FILE ? base : -1;
    region->at = mmap(NULL, region->pages * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
    CHECK(region->at != MAP_FAILED);
    region->second = NULL;
    if (region->kind == SHARED && below(2)) {
        region->second = mremap(region->at, 0, region->pages * PAGE, MREMAP_MAYMOVE);
        CHECK(region->second != MAP_FAILED);
    }
}

static void unmap(struct region *region)
{
    CHECK(munmap(region->at, region->pages * PAGE) == 0);
    CHECK(region->second == NULL || munmap(region->second, region->pages * PAGE) == 0);
    region->kind = NOTHING;
}

static void resize(struct region *region)
{
    size_t pages = 1 + below(region->kind == OF_FILE ? FILE_PAGES : PAGES_MAX);
    /* A shared object does not grow with its mapping. */
    if (region->kind == SHARED)
        return;
    region->at = mremap(region->at, region->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE);
    CHECK(region->at != MAP_FAILED);
    region->pages = pages;
}

static void discard(struct region *region, unsigned char *at, size_t length)
{
    /* What is freed may come back as it was or as zeros: it is written at once. */
    int freed = region->kind == PRIVATE && below(2);
    CHECK(madvise(at, length, freed ? MADV_FREE : MADV_DONTNEED) == 0);
    if (freed)
        memset(at, (int)below(256), length);
}

static void change(struct region *region)
{
    size_t first = below(region->pages), length = (1 + below(region->pages - first)) * PAGE;
    unsigned char *at = region->at + first * PAGE;
    switch (below(16)) {
    case 0:
        unmap(region);
        break;
    case 1:
        CHECK(mprotect(region->at, region->pages * PAGE, below(2) ? PROT_READ : PROT_NONE) == 0);
        CHECK(mprotect(region->at, region->pages * PAGE, PROT_READ | PROT_WRITE) == 0);
        break;
    case 2:
        discard(region, at, length);
        break;
    case 3:
        resize(region);
        break;
    case 4:
    case 5:
        write_by_kernel(at, length);
        break;
    case 6:
    case 7:
        write_by_thread(at, length);
        break;
    case 8:
        if (has_children && region->kind == SHARED && below(8) == 0)
            write_by_child(at, length);
        break;
    case 9:
        if (region->second != NULL)
            scatter(region->second + first * PAGE, length, next_number(&numbers));
        break;
    case 10:
        if (region->kind == PRIVATE)
            CHECK(madvise(region->at, region->pages * PAGE, below(2) ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0);
        break;
    case 11:
        memset(at, 0, length);
        break;
    default:
        scatter(at, length, next_number(&numbers));
    }
}

/* A file that is mapped, written by way of the mapping and by write(2). */
static void change_mapped_file(void)
{
    uint64_t number = next_number(&numbers);
    size_t place = below(FILE_PAGES * PAGE - sizeof number);
    if (below(2))
        memcpy(of_mapped_file + place, &number, sizeof number);
    else
        CHECK(pwrite(mapped_file, &number, sizeof number, (off_t)place) == sizeof number);
}

static void churn_heap(void)
{
    static struct {
        unsigned char *at;
        size_t length;
    } pieces[64];
    size_t place = below(64);
    if (pieces[place].at != NULL)
        sum = fold(sum, pieces[place].at + below(pieces[place].length), 1);
    size_t length = 1 + below(60000);
    pieces[place].at = realloc(pieces[place].at, length);
    CHECK(pieces[place].at != NULL);
    /* What realloc has kept is known, the rest is not. */
    memset(pieces[place].at, (int)below(256), length);
    pieces[place].length = length;
}

static void look(const struct region *region, size_t pages)
{
    for (; pages > 0; pages--)
        sum = fold(sum, region->at + below(region->pages) * PAGE, PAGE);
}

static void look_at_everything(void)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].kind != NOTHING)
            sum = fold(sum, regions[i].at, regions[i].pages * PAGE);
    if (!has_children)
        sum = fold(sum, of_mapped_file, FILE_PAGES * PAGE);
}

static void begin_again(char *own, uint64_t turns, uint64_t turn)
{
    char words[4][32];
    look_at_everything();
    snprintf(words[0], sizeof words[0], "%lu", (unsigned long)numbers);
    snprintf(words[1], sizeof words[1], "%lu", (unsigned long)turns);
    snprintf(words[2], sizeof words[2], "%lu", (unsigned long)turn);
    snprintf(words[3], sizeof words[3], "%lu", (unsigned long)sum);
    CHECK(fflush(stdout) == 0);
    execl("/proc/self/exe", own, words[0], words[1], words[2], words[3], NULL);
    CHECK(0);
}

static void map_file(void)
{
    mapped_file = open("mapped.bin", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(mapped_file >= 0);
    CHECK(ftruncate(mapped_file, FILE_PAGES * PAGE) == 0);
    of_mapped_file = mmap(NULL, FILE_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, mapped_file, 0);
    CHECK(of_mapped_file != MAP_FAILED);
}

static void prepare(void)
{
    pthread_t thread;
    unsigned char bytes[PAGE];
    base = open("base.bin", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK(base >= 0 && pipe2(ends, O_CLOEXEC) == 0);
    for (int page = 0; page < FILE_PAGES; page++) {
        memset(bytes, page + 1, sizeof bytes);
        CHECK(pwrite(base, bytes, PAGE, (off_t)page * PAGE) == PAGE);
    }
    if (!has_children)
        map_file();
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread, NULL, obey, (void *)i) == 0);
}

int main(int argc, char **argv)
{
    numbers = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    uint64_t turns = argc > 2 ? strtoul(argv[2], NULL, 10) : 60000;
    uint64_t turn = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    sum = argc > 4 ? strtoul(argv[4], NULL, 10) : FOLD_START;
    has_children = turns % 2;
    prepare();
    for (; turn < turns; turn++) {
        struct region *region = &regions[below(REGIONS)];
        if (region->kind == NOTHING)
            map_again(region);
        else
            change(region);
        if (region->kind != NOTHING)
            look(region, 2);
        if (below(4) == 0)
            churn_heap();
        if (!has_children && below(8) == 0)
            change_mapped_file();
        if (turn % 1024 == 0) {
            look_at_everything();
            printf("%lu %016lx\n", (unsigned long)turn, (unsigned long)sum);
        }
        if (has_children && below(turns / 2) == 0)
            begin_again(argv[0], turns, turn + 1);
    }
    look_at_everything();
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}
