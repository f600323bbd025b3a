/* Holds as many megabytes as its first argument says and writes to a share of its pages again and again, for measurements.
 *
 * usage: dirtier MEGABYTES small|huge asked PERMILLE
 *            writes to PERMILLE of its pages each time that a file named `go` appears, which it removes when done; to every word
 *            of all of them where that is `all`
 *        dirtier MEGABYTES small|huge forks
 *            forks each time that a file named `go` appears, which it removes when done, and leaves in a file named `took` how
 *            many nanoseconds that took
 *        dirtier MEGABYTES small|huge family
 *            has a child, with which it shares all of them since the fork; both do nothing
 *        dirtier MEGABYTES small|huge rounds PERMILLE ROUNDS STEPS
 *            computes STEPS steps and writes to PERMILLE of its pages, ROUNDS times, from when a file named `gate` appears;
 *            prints how many nanoseconds that took, and how many of processor time
 *        dirtier MEGABYTES small|huge pace
 *            prints how many steps take a tenth of a second
 *        dirtier MEGABYTES small|huge first
 *            when a file named `gate` appears: prints how many nanoseconds the first write to a page takes, and how many
 *            with mprotect and a handler of SIGSEGV
 * Tells that it is ready by a file named `waiting`. */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096 };

static unsigned char *memory;
static size_t pages;
static uint64_t numbers = 1;

static void await_file(const char *name)
{
    const struct timespec a_while = {0, 100000};
    while (access(name, F_OK) != 0)
        nanosleep(&a_while, NULL);
}

static uint64_t nanoseconds_of(clockid_t clock)
{
    struct timespec now;
    CHECK(clock_gettime(clock, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t nanoseconds(void) { return nanoseconds_of(CLOCK_MONOTONIC); }

/* Each page at most once: a stride that has no divisor in common with the number of pages goes through all of them. */
static void write_share(long permille)
{
    size_t count = pages * (size_t)permille / 1000, stride = 1000003, page = next_number(&numbers) % pages;
    for (size_t i = 0; i < count; i++, page = (page + stride) % pages)
        *(volatile uint64_t *)(memory + page * PAGE + 8) += 1;
}

static void fill(void)
{
    for (size_t word = 0; word < pages * PAGE / 8; word++)
        ((uint64_t *)memory)[word] = next_number(&numbers);
}

static uint64_t compute(uint64_t value, uint64_t steps)
{
    for (uint64_t i = 0; i < steps; i++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    return value;
}

static void unprotect(int signal, siginfo_t *fault, void *context)
{
    (void)signal, (void)context;
    uintptr_t page = (uintptr_t)fault->si_addr & ~(uintptr_t)(PAGE - 1);
    CHECK(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE) == 0);
}

static void fork_once(void)
{
    await_file("go");
    uint64_t begin = nanoseconds();
    pid_t child = fork();
    uint64_t took = nanoseconds() - begin;
    CHECK(child >= 0);
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, NULL, 0) == child);
    FILE *file = fopen("took", "w");
    CHECK(file != NULL && fprintf(file, "%lu", (unsigned long)took) > 0 && fclose(file) == 0);
    CHECK(unlink("go") == 0);
}

static uint64_t first_writes(void)
{
    uint64_t begin = nanoseconds();
    for (size_t page = 0; page < pages; page++)
        *(volatile uint64_t *)(memory + page * PAGE + 8) += 1;
    return (nanoseconds() - begin) / pages;
}

/* By processor time, so that others on the machine do not count, the fastest of several goes. */
static uint64_t pace(void)
{
    const uint64_t steps = 20000000, tenth = 100000000;
    uint64_t best = UINT64_MAX;
    for (int go = 0; go < 10; go++) {
        uint64_t begin = nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID);
        numbers += compute(numbers, steps) & 1;
        uint64_t took = nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID) - begin;
        best = took < best ? took : best;
    }
    return steps * tenth / best;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 4);
    if (strcmp(argv[3], "pace") == 0) {
        printf("%lu\n", (unsigned long)pace());
        return 0;
    }
    pages = strtoul(argv[1], NULL, 10) << 8;
    memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(madvise(memory, pages * PAGE, strcmp(argv[2], "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0);
    fill();
    if (strcmp(argv[3], "family") == 0 && fork() == 0)
        for (;;)
            pause();
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    if (strcmp(argv[3], "asked") == 0)
        for (;;) {
            await_file("go");
            if (strcmp(argv[4], "all") == 0)
                fill();
            else
                write_share(strtol(argv[4], NULL, 10));
            CHECK(unlink("go") == 0);
        }
    if (strcmp(argv[3], "forks") == 0)
        for (;;)
            fork_once();
    if (strcmp(argv[3], "family") == 0)
        for (;;)
            pause();
    await_file("gate");
    if (strcmp(argv[3], "first") == 0) {
        struct sigaction action = {.sa_sigaction = unprotect, .sa_flags = SA_SIGINFO};
        uint64_t noted = first_writes();
        CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
        CHECK(mprotect(memory, pages * PAGE, PROT_READ) == 0);
        printf("%lu %lu\n", (unsigned long)noted, (unsigned long)first_writes());
        return 0;
    }
    CHECK(argc == 7);
    uint64_t steps = strtoul(argv[6], NULL, 10);
    uint64_t begin = nanoseconds(), used = nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID), value = 1;
    for (long round = strtol(argv[5], NULL, 10); round > 0; round--) {
        value = compute(value, steps);
        write_share(strtol(argv[4], NULL, 10));
    }
    used = nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID) - used;
    printf("%lu %lu\n", (unsigned long)(nanoseconds() - begin), (unsigned long)used);
    return value == 0;
}
