/* Directs its own checkpoints in an order that follows from a seed: excludes and includes bytes of its heap, its data, its
 * stacks and a mapped file, from several threads and from a signal handler, writes where it may, and asks for checkpoints.
 * Beside each arena lies a shadow of what it must hold; after each step some of it is compared, so that a byte that a restart
 * has lost is found. What is dead holds nothing that counts until it has been included and written. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <standfast.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

#define THREADS 3
#define ARENA 40000
#define ARENAS 4
#define REGION_MAX 9000
#define HANDLED 4096

enum { INCLUDED, DEAD = STANDFAST_DEAD, READONLY = STANDFAST_READONLY };

struct arena {
    unsigned char *bytes;
    unsigned char shadow[ARENA], usage[ARENA], counts[ARENA];
};

struct worker {
    pthread_t thread;
    uint64_t state;
    long steps;
    uint64_t sum;
    struct arena arenas[ARENAS];
};

static struct worker workers[THREADS];
static unsigned char in_data[THREADS][ARENA];
static unsigned char *in_file;
static unsigned char handled[HANDLED];
static volatile sig_atomic_t signals;

/* The first half of it is never dead when the handler is through. */
static void on_alarm(int signal)
{
    int error = errno;
    (void)signal;
    CHECK(standfast_exclude(handled, HANDLED, STANDFAST_DEAD) <= 0);
    CHECK(standfast_include(handled, HANDLED / 2) <= 0);
    signals++;
    CHECK(errno == error);
}

static void compare(const struct arena *arena, size_t from, size_t to)
{
    for (size_t at = from; at < to; at++)
        CHECK(!arena->counts[at] || arena->bytes[at] == arena->shadow[at]);
}

static void write_some(struct worker *worker, struct arena *arena, size_t from, size_t to)
{
    for (size_t at = from; at < to; at++) {
        if (arena->usage[at] == READONLY)
            continue;
        unsigned char byte = (unsigned char)next_number(&worker->state);
        arena->bytes[at] = byte;
        arena->shadow[at] = byte;
        arena->counts[at] = arena->usage[at] != DEAD;
    }
}

static void step(struct worker *worker)
{
    struct arena *arena = &worker->arenas[next_number(&worker->state) % ARENAS];
    size_t from = next_number(&worker->state) % ARENA;
    size_t to = from + 1 + next_number(&worker->state) % REGION_MAX;
    size_t length = (to = to > ARENA ? ARENA : to) - from;
    switch (next_number(&worker->state) % 5) {
    case 0:
        memset(arena->counts + from, 0, length);
        memset(arena->usage + from, DEAD, length);
        CHECK(standfast_exclude(arena->bytes + from, length, STANDFAST_DEAD) == 0);
        break;
    case 1:
        CHECK(standfast_exclude(arena->bytes + from, length, STANDFAST_READONLY) == 0);
        memset(arena->usage + from, READONLY, length);
        break;
    case 2:
        CHECK(standfast_include(arena->bytes + from, length) == 0);
        memset(arena->usage + from, INCLUDED, length);
        break;
    default:
        write_some(worker, arena, from, to);
    }
    compare(arena, from, to);
}

static void run_steps(struct worker *worker)
{
    unsigned char on_stack[ARENA];
    int number = (int)(worker - workers);
    unsigned char *places[ARENAS] = {malloc(ARENA), in_data[number], on_stack, in_file + number * ARENA};
    for (int i = 0; i < ARENAS; i++) {
        struct arena *arena = &worker->arenas[i];
        CHECK(places[i] != NULL);
        arena->bytes = places[i];
        write_some(worker, arena, 0, ARENA);
    }
    for (long done = 0; done < worker->steps; done++) {
        step(worker);
        if (done % 16 == 15)
            usleep(1000);
        if (number == 0 && done % 50 == 49) {
            uint64_t generation = 0;
            int outcome = standfast_checkpoint_here(&generation);
            CHECK(outcome == 0 || ((outcome == STANDFAST_TAKEN || outcome == STANDFAST_RESTARTED) && generation > 0) ||
                  outcome == STANDFAST_ERROR_DISABLED || outcome == STANDFAST_ERROR_UNPROTECTED ||
                  outcome == STANDFAST_ERROR_FAILED);
        }
        if (number == 1 && done % 40 == 39) {
            CHECK(standfast_disable() == 0 && standfast_disable() == 0);
            step(worker);
            CHECK(standfast_enable() == 0 && standfast_enable() == 0);
        }
        if (number == 2 && done % 200 == 199) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                step(worker);
                _exit(0);
            }
            int status;
            while (waitpid(child, &status, 0) < 0)
                CHECK(errno == EINTR);
            CHECK(status == 0);
        }
        if (done % 64 == 63)
            for (int i = 0; i < ARENAS; i++)
                compare(&worker->arenas[i], 0, ARENA);
    }
    worker->sum = FOLD_START;
    for (int i = 0; i < ARENAS; i++) {
        struct arena *arena = &worker->arenas[i];
        CHECK(standfast_include(arena->bytes, ARENA) == 0);
        for (size_t at = 0; at < ARENA; at++)
            worker->sum = fold(worker->sum, arena->counts[at] ? &arena->bytes[at] : &arena->shadow[at], 1);
    }
}

static void *work(void *worker)
{
    run_steps(worker);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    uint64_t seed = strtoull(argv[1], NULL, 10);
    int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0 && ftruncate(file, THREADS * ARENA) == 0);
    in_file = mmap(NULL, THREADS * ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(in_file != MAP_FAILED && close(file) == 0);

    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < THREADS; i++) {
        workers[i].state = seed * THREADS + (uint64_t)i;
        workers[i].steps = atol(argv[2]);
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(signals > 0);
    for (int i = 0; i < THREADS; i++)
        printf("%d: %016lx\n", i, (unsigned long)workers[i].sum);
    return 0;
}
