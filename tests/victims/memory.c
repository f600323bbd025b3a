/* Memory of all ordinary kinds: guard pages, huge reservations, pages that lost a right, files mapped privately, code
 * written at run time, brk and mmap churn, deep recursion, a big thread stack. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { PAGE = 4096, PIECES = 40, FILE_PAGES = 16 };

#define RESERVED (64ul << 30)

static unsigned char *reserved, *hidden, *fixed, *mapped, *read_shared, *huge, *guarded;
static unsigned char *pieces[PIECES];
static size_t piece_lengths[PIECES];
static sigjmp_buf back;
static volatile int faults;
static uint64_t random_state = 11;

static unsigned char *map(size_t length, int protection, int flags)
{
    void *at = mmap(NULL, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void on_fault(int signal)
{
    (void)signal;
    faults++;
    siglongjmp(back, 1);
}

static void must_fault(volatile unsigned char *at)
{
    int before = faults;
    if (sigsetjmp(back, 1) == 0) {
        *at = 1;
        CHECK(!"a write went through that should have faulted");
    }
    CHECK(faults == before + 1);
}

static void fill(unsigned char *at, size_t length, unsigned mark)
{
    for (size_t i = 0; i < length; i++)
        at[i] = (unsigned char)(mark + i * 13);
}

static void check_filled(const unsigned char *at, size_t length, unsigned mark)
{
    for (size_t i = 0; i < length; i++)
        CHECK(at[i] == (unsigned char)(mark + i * 13));
}

/* A file of known contents, mapped twice: privately, with one page changed and one cleared, and shared for reading. */
static void map_file(void)
{
    static unsigned char contents[FILE_PAGES * PAGE];
    fill(contents, sizeof contents, 5);
    int fd = open("mapped.bin", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, contents, sizeof contents) == sizeof contents);
    mapped = mmap(NULL, sizeof contents, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(close(fd) == 0);
    fd = open("mapped.bin", O_RDONLY);
    read_shared = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, fd, 2 * PAGE);
    CHECK(mapped != MAP_FAILED && read_shared != MAP_FAILED && close(fd) == 0);
    fill(mapped + 3 * PAGE, PAGE, 99);
    memset(mapped + 7 * PAGE, 0, PAGE);
}

static void lay_out(void)
{
    reserved = map(RESERVED, PROT_NONE, MAP_NORESERVE);
    CHECK(mprotect(reserved + (17ul << 30), 3 * PAGE, PROT_READ | PROT_WRITE) == 0);
    fill(reserved + (17ul << 30), 3 * PAGE, 1);
    CHECK(mprotect(reserved + (17ul << 30) + PAGE, PAGE, PROT_NONE) == 0);
    hidden = map(8 * PAGE, PROT_READ | PROT_WRITE, 0);
    fill(hidden, 8 * PAGE, 2);
    CHECK(mprotect(hidden, 8 * PAGE, PROT_NONE) == 0);
    fixed = map(4 * PAGE, PROT_READ | PROT_WRITE, 0);
    fill(fixed, 4 * PAGE, 3);
    CHECK(mprotect(fixed, 4 * PAGE, PROT_READ) == 0);
    guarded = map(3 * PAGE, PROT_READ | PROT_WRITE, 0);
    CHECK(mprotect(guarded, PAGE, PROT_NONE) == 0 && mprotect(guarded + 2 * PAGE, PAGE, PROT_NONE) == 0);
    huge = map(6ul << 20, PROT_READ | PROT_WRITE, MAP_NORESERVE);
    CHECK(madvise(huge, 6ul << 20, MADV_HUGEPAGE) == 0 || errno == EINVAL);
    fill(huge, 3ul << 20, 4);
    map_file();
}

static void check_laid_out(void)
{
    check_filled(reserved + (17ul << 30), PAGE, 1);
    must_fault(reserved + (17ul << 30) + PAGE);
    must_fault(reserved + (63ul << 30));
    must_fault(hidden + 5 * PAGE);
    must_fault(fixed + 2 * PAGE);
    must_fault(guarded + PAGE - 1);
    must_fault(guarded + 2 * PAGE);
    check_filled(fixed, 4 * PAGE, 3);
    CHECK(mprotect(hidden, 8 * PAGE, PROT_READ) == 0);
    check_filled(hidden, 8 * PAGE, 2);
    CHECK(mprotect(hidden, 8 * PAGE, PROT_NONE) == 0);
    check_filled(mapped, 3 * PAGE, 5);
    check_filled(mapped + 3 * PAGE, PAGE, 99);
    for (int i = 0; i < PAGE; i++)
        CHECK(mapped[7 * PAGE + i] == 0);
    check_filled(mapped + 8 * PAGE, PAGE, 5 + 8 * PAGE * 13);
    check_filled(read_shared, 4 * PAGE, 5 + 2 * PAGE * 13);
    for (size_t i = 0; i < 3ul << 20; i += 997)
        CHECK(huge[i] == (unsigned char)(4 + i * 13));
    for (size_t i = 4ul << 20; i < 6ul << 20; i += PAGE)
        CHECK(huge[i] == 0);
}

/* `lea eax, [rdi + n]; ret`, written again each round into memory that never is writable and executable at once. */
static void run_written_code(long round)
{
    static unsigned char *code;
    static int (*function)(int);
    int number = (int)(round * 7 % 100000);
    if (code == NULL)
        code = map(PAGE, PROT_READ | PROT_EXEC, 0);
    else
        CHECK(function(5) == (int)((round - 1) * 7 % 100000) + 5);
    CHECK(mprotect(code, PAGE, PROT_READ | PROT_WRITE) == 0);
    code[0] = 0x8d, code[1] = 0x87;
    memcpy(code + 2, &number, sizeof number);
    code[6] = 0xc3;
    CHECK(mprotect(code, PAGE, PROT_READ | PROT_EXEC) == 0);
    memcpy(&function, &code, sizeof function);
    CHECK(function(1) == number + 1);
}

static void churn_mappings(void)
{
    unsigned slot = next_number(&random_state) % PIECES;
    if (pieces[slot]) {
        size_t grown = piece_lengths[slot] + 5 * PAGE;
        unsigned char *moved = mremap(pieces[slot], piece_lengths[slot], grown, MREMAP_MAYMOVE);
        CHECK(moved != MAP_FAILED);
        for (size_t i = 0; i < piece_lengths[slot]; i += 509)
            CHECK(moved[i] == (unsigned char)(slot + i * 13));
        CHECK(moved[grown - 1] == 0 && madvise(moved, PAGE, MADV_DONTNEED) == 0 && moved[1] == 0);
        CHECK(munmap(moved, grown) == 0);
    }
    piece_lengths[slot] = (1 + next_number(&random_state) % 30) * PAGE;
    pieces[slot] = map(piece_lengths[slot], PROT_READ | PROT_WRITE, 0);
    fill(pieces[slot], piece_lengths[slot], slot);
}

static void churn_heap(long round)
{
    static unsigned char *end, *start;
    if (start == NULL)
        start = end = sbrk(0);
    CHECK(sbrk(0) == end);
    if (end - start > 400 * PAGE) {
        for (unsigned char *at = start; at < end; at += PAGE)
            CHECK(*at == (unsigned char)((at - start) / PAGE));
        CHECK(brk(start) == 0);
        end = start;
        return;
    }
    unsigned char *fresh = sbrk(PAGE * (1 + round % 3));
    CHECK(fresh == end);
    end = fresh + PAGE * (1 + round % 3);
    for (unsigned char *at = fresh; at < end; at += PAGE)
        *at = (unsigned char)((at - start) / PAGE);
}

static uint64_t __attribute__((noinline)) descend(int depth, uint64_t sum)
{
    volatile unsigned char frame[700];
    for (size_t i = 0; i < sizeof frame; i += 50)
        frame[i] = (unsigned char)(depth + (int)i);
    uint64_t below = depth == 0 ? sum : descend(depth - 1, sum * 31 + (uint64_t)depth);
    for (size_t i = 0; i < sizeof frame; i += 50)
        CHECK(frame[i] == (unsigned char)(depth + (int)i));
    return below ^ frame[350];
}

struct deep {
    long rounds;
    uint64_t sum;
};

static void *dig(void *argument)
{
    struct deep *deep = argument;
    for (long i = 0; i < deep->rounds; i++)
        deep->sum = descend(90000, deep->sum);
    return NULL;
}

int main(int argc, char **argv)
{
    long rounds = amount(argc, argv, 6000);
    struct sigaction action = {.sa_handler = on_fault};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    setvbuf(stdout, NULL, _IONBF, 0);
    lay_out();
    struct deep deep = {rounds / 25 + 1, 1};
    pthread_attr_t big;
    pthread_t digger;
    CHECK(pthread_attr_init(&big) == 0 && pthread_attr_setstacksize(&big, 128ul << 20) == 0);
    CHECK(pthread_create(&digger, &big, dig, &deep) == 0);
    uint64_t sum = FOLD_START;
    for (long round = 0; round < rounds; round++) {
        check_laid_out();
        run_written_code(round);
        churn_mappings();
        churn_heap(round);
        sum = descend(4000, sum);
    }
    CHECK(pthread_join(digger, NULL) == 0);
    printf("memory: sum %016lx deep %016lx\n", (unsigned long)sum, (unsigned long)deep.sum);
    return 0;
}
