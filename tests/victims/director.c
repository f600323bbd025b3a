/* Gives one direction, named by its first argument, and says what has come of it: in its own words on standard output, which
 * a restart continues, and by its exit status where something is not as it must be. */
#include "check.h"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <standfast.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LARGE (16ul << 20)
#define BLOCK 20000ul

static void say(const char *what, long value)
{
    dprintf(1, "%s %ld\n", what, value);
}

static void wait_at_gate(void)
{
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    while (access("gate", F_OK) != 0)
        usleep(500);
}

static unsigned char *noise(size_t bytes, uint64_t seed)
{
    uint64_t *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(words != MAP_FAILED);
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = next_number(&seed);
    return (unsigned char *)words;
}

static void must_be_noise(const unsigned char *bytes, size_t from, size_t to, uint64_t seed)
{
    for (size_t i = 0; i < to / 8; i++) {
        uint64_t word = next_number(&seed);
        CHECK(i < from / 8 || memcmp(bytes + 8 * i, &word, 8) == 0);
    }
}

static int checkpoint(void)
{
    uint64_t generation = 0;
    int outcome = standfast_checkpoint_here(&generation);
    say(outcome == STANDFAST_RESTARTED ? "restarted" : outcome == STANDFAST_TAKEN ? "taken" : "outcome",
        outcome > 0 ? (long)generation : outcome);
    return outcome;
}

/* All but the first page is dead at the checkpoint, and alive at the next one. */
static void dead(void)
{
    unsigned char *bytes = noise(LARGE, 1);
    CHECK(standfast_exclude(bytes + 4096, LARGE - 4096, STANDFAST_DEAD) == 0);
    checkpoint();
    must_be_noise(bytes, 0, 4096, 1);
    wait_at_gate();
}

static void include(void)
{
    unsigned char *bytes = noise(LARGE, 1);
    checkpoint();
    CHECK(standfast_exclude(bytes, LARGE, STANDFAST_DEAD) == 0);
    checkpoint();
    CHECK(standfast_include(bytes, LARGE) == 0);
    int outcome = checkpoint();
    if (outcome == STANDFAST_RESTARTED)
        must_be_noise(bytes, 0, LARGE, 1);
    wait_at_gate();
    must_be_noise(bytes, 0, LARGE, 1);
}

static void read_only(void)
{
    unsigned char *bytes = noise(LARGE, 2);
    CHECK(standfast_exclude(bytes, LARGE, STANDFAST_READONLY) == 0);
    for (int i = 0; i < 3; i++)
        checkpoint();
    must_be_noise(bytes, 0, LARGE, 2);
    wait_at_gate();
    must_be_noise(bytes, 0, LARGE, 2);
}

static void free_memory(bool asks)
{
    static void *blocks[LARGE / BLOCK];
    uint64_t state = 3;
    for (size_t i = 0; i < LARGE / BLOCK; i++) {
        CHECK((blocks[i] = malloc(BLOCK)) != NULL);
        for (size_t word = 0; word < BLOCK / 8; word++)
            ((uint64_t *)blocks[i])[word] = next_number(&state);
    }
    /* The last one stays, so that the heap does not simply become shorter. */
    for (size_t i = 0; i + 1 < LARGE / BLOCK; i++)
        free(blocks[i]);
    if (asks)
        checkpoint();
    wait_at_gate();
}

static void disabled(void)
{
    CHECK(standfast_disable() == 0 && standfast_disable() == 0);
    CHECK(standfast_enable() == 0);
    CHECK(standfast_checkpoint_here(NULL) == STANDFAST_ERROR_DISABLED);
    wait_at_gate();
    say("enabled", 0);
    CHECK(standfast_enable() == 0);
    CHECK(standfast_enable() == STANDFAST_ERROR_DISABLED);
    while (access("end", F_OK) != 0)
        usleep(500);
}

static void refused(void)
{
    aio_context_t context = 0;
    CHECK(syscall(SYS_io_setup, 1, &context) == 0);
    checkpoint();
    CHECK(syscall(SYS_io_destroy, context) == 0);
    while (checkpoint() != STANDFAST_TAKEN)
        usleep(10000);
}

static void not_due(void)
{
    for (int i = 0; i < 1000; i++)
        CHECK(standfast_checkpoint_here(NULL) == STANDFAST_NOT_TAKEN);
    say("next", standfast_next() > 0);
}

/* Of each structure but a quarter does not count: not at all in `dead`, not since the first checkpoint in `read-only`. */
struct fields {
    uint32_t constant[3], count;
};

static void set_counts(struct fields *all, size_t count, uint32_t round)
{
    for (size_t i = 0; i < count; i++)
        all[i].count = (uint32_t)i * 2654435761u + round;
}

static void fields(int usage)
{
    size_t count = LARGE / sizeof(struct fields);
    struct fields *all = (struct fields *)noise(LARGE, 5);
    for (size_t i = 0; i < count; i++)
        CHECK(standfast_exclude(&all[i], offsetof(struct fields, count), usage) == 0);
    for (uint32_t round = 0; round < 3; round++) {
        set_counts(all, count, round);
        checkpoint();
        for (size_t i = 0; i < count; i++)
            CHECK(all[i].count == (uint32_t)i * 2654435761u + round);
    }
    wait_at_gate();
    uint64_t seed = 5;
    for (size_t i = 0; i < count; i++) {
        uint64_t low = next_number(&seed), high = next_number(&seed);
        CHECK(all[i].count == (uint32_t)i * 2654435761u + 2);
        CHECK(usage == STANDFAST_DEAD || (memcmp(all[i].constant, &low, 8) == 0 && all[i].constant[2] == (uint32_t)high));
    }
}

static void violate(void)
{
    unsigned char *bytes = noise(4 * 4096, 6);
    CHECK(standfast_exclude(bytes + 100, 3 * 4096, STANDFAST_READONLY) == 0);
    bytes[2 * 4096] = 1;
    bytes[2 * 4096 + 1] = 2;
    bytes[50] = 3;
    CHECK(standfast_include(bytes, 4 * 4096) == 0);
    bytes[4096] = 4;
    CHECK(bytes[2 * 4096] == 1 && bytes[2 * 4096 + 1] == 2 && bytes[4096] == 4);
    unsigned char *unused = noise(3 * 4096, 7);
    CHECK(standfast_exclude(unused + 1, 3 * 4096 - 1, STANDFAST_DEAD) == 0);
    checkpoint();
    uint64_t seed = 7, word = next_number(&seed);
    CHECK(unused[0] == (unsigned char)word);
    say("dead", unused[1] == 0xa5 && unused[3 * 4096 - 1] == 0xa5);
    wait_at_gate();
}

/* What is read-only of a page with other things on it has changed at the second checkpoint, and at none of the others. */
static void violate_part(void)
{
    unsigned char *bytes = noise(2 * 4096, 8);
    CHECK(standfast_exclude(bytes + 100, 200, STANDFAST_READONLY) == 0);
    checkpoint();
    bytes[150]++;
    bytes[300]++;
    checkpoint();
    checkpoint();
    CHECK(standfast_include(bytes + 100, 200) == 0);
    bytes[160]++;
    CHECK(standfast_exclude(bytes + 100, 200, STANDFAST_READONLY) == 0);
    checkpoint();
    wait_at_gate();
}

/* The child has a table of its own, and what the program executes begins without one. */
static void relatives(char **argv)
{
    unsigned char *bytes = noise(LARGE, 4);
    CHECK(standfast_exclude(bytes, LARGE, STANDFAST_DEAD) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(standfast_include(bytes, 4096) == 0);
        while (access("end", F_OK) != 0)
            usleep(500);
        must_be_noise(bytes, 0, 4096, 4);
        execl(argv[0], argv[0], "not-due", NULL);
        _exit(9);
    }
    checkpoint();
    wait_at_gate();
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void arguments(void)
{
    static char byte;
    char *hole = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(hole != MAP_FAILED && munmap(hole + 4096, 4096) == 0);
    errno = 77;
    CHECK(standfast_exclude(NULL, 1, STANDFAST_DEAD) == STANDFAST_ERROR_ARGUMENT);
    CHECK(standfast_exclude(&byte, 1, 0) == STANDFAST_ERROR_ARGUMENT);
    CHECK(standfast_exclude(&byte, 1, 3) == STANDFAST_ERROR_ARGUMENT);
    CHECK(standfast_exclude(&byte, (size_t)-1, STANDFAST_DEAD) == STANDFAST_ERROR_RANGE);
    CHECK(standfast_include(&byte, (size_t)1 << 62) == STANDFAST_ERROR_RANGE);
    CHECK(standfast_include((void *)-1l, 4096) == STANDFAST_ERROR_RANGE);
    CHECK(standfast_include(&byte, 0) == 0);
    int unmapped = standfast_is_protected() ? STANDFAST_ERROR_UNMAPPED : 0;
    CHECK(standfast_exclude(hole, 3 * 4096, STANDFAST_DEAD) == unmapped);
    CHECK(standfast_exclude(hole + 4096, 1, STANDFAST_DEAD) == unmapped);
    CHECK(standfast_exclude(hole, 4096, STANDFAST_DEAD) == 0);
    CHECK(mprotect(hole, 4096, PROT_NONE) == 0);
    CHECK(standfast_exclude(hole + 4088, 8, STANDFAST_DEAD) == 0);
    /* What lies there is nobody's business, whatever the library does to see whether it is there. */
    sigset_t all, before, behind;
    sigfillset(&all), sigemptyset(&before), sigemptyset(&behind);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &before) == 0);
    CHECK(standfast_exclude(&all, sizeof all, STANDFAST_READONLY) == 0);
    CHECK(standfast_include(&all, sizeof all) == 0);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &behind) == 0 && memcmp(&before, &behind, sizeof before) == 0);
    for (int error = -9; error <= 0; error++)
        CHECK(standfast_error_text(error)[0] != 0);
    CHECK(errno == 77);
    say("protected", standfast_is_protected());
}

/* Promises about the same addresses by two programs that one process executes one after the other, of which only the first
 * one finds the upper half dead. */
static void successor(char **argv, uint64_t seed)
{
    enum { HALF = 32768 };
    bool is_first = seed == 7;
    unsigned char *bytes = mmap((void *)0x200000000000, 4 * HALF, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(bytes != MAP_FAILED);
    for (size_t i = 0; i < 4 * HALF / 8; i++)
        ((uint64_t *)bytes)[i] = next_number(&seed);
    seed = is_first ? 7 : 8;
    CHECK(standfast_exclude(bytes, HALF, STANDFAST_READONLY) == 0);
    CHECK(standfast_exclude(bytes + (is_first ? 2 : 3) * HALF, HALF, STANDFAST_DEAD) == 0);
    if (is_first) {
        for (int i = 0; i < 2; i++)
            CHECK(checkpoint() == STANDFAST_TAKEN);
        execl("/proc/self/exe", argv[0], "successor", "8", NULL);
        CHECK(!"the successor begins");
    }
    checkpoint();
    must_be_noise(bytes, 0, 3 * HALF, seed);
    wait_at_gate();
    must_be_noise(bytes, 0, 3 * HALF, seed);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "dead") == 0)
        dead();
    else if (strcmp(what, "include") == 0)
        include();
    else if (strcmp(what, "read-only") == 0)
        read_only();
    else if (strcmp(what, "free") == 0)
        free_memory(true);
    else if (strcmp(what, "free-unasked") == 0)
        free_memory(false);
    else if (strcmp(what, "fields-dead") == 0)
        fields(STANDFAST_DEAD);
    else if (strcmp(what, "fields-read-only") == 0)
        fields(STANDFAST_READONLY);
    else if (strcmp(what, "violate") == 0)
        violate();
    else if (strcmp(what, "violate-part") == 0)
        violate_part();
    else if (strcmp(what, "disabled") == 0)
        disabled();
    else if (strcmp(what, "refused") == 0)
        refused();
    else if (strcmp(what, "not-due") == 0)
        not_due();
    else if (strcmp(what, "relatives") == 0)
        relatives(argv);
    else if (strcmp(what, "successor") == 0)
        successor(argv, argc > 2 ? 8 : 7);
    else if (strcmp(what, "arguments") == 0)
        arguments();
    else
        CHECK(!"a direction is named");
    return 0;
}
