/* Threads that compute in step: mutexes of all types, condition variables, barriers, thread-local storage, vector
 * registers, malloc and free, short-lived threads, and two result files. Linked dynamically and statically. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>

enum { WORKERS = 4, BLOCKS = 64, CELLS = 512, QUEUE = 8, PIECE = 512 };

typedef double vector __attribute__((vector_size(32)));

static pthread_barrier_t in_step;
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, checked, nested, robust;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER, queue_emptied = PTHREAD_COND_INITIALIZER;
static uint64_t queue[QUEUE];
static unsigned queue_head, queue_length;
static uint64_t consumed;
static uint64_t total;
static double cells[2][WORKERS][CELLS]; /* of even and odd rounds: read the one, write the other */
static __thread uint64_t mine;
static __thread char mine_too[3000];
static long rounds;

struct worker {
    int number;
    pthread_t thread;
    uint64_t random;
    unsigned char *blocks[BLOCKS];
    size_t lengths[BLOCKS];
    vector sum;
};

static void churn(struct worker *w)
{
    for (int i = 0; i < 24; i++) {
        unsigned slot = next_number(&w->random) % BLOCKS;
        unsigned char mark = (unsigned char)(slot * 7 + w->number);
        for (size_t k = 0; k < w->lengths[slot]; k += 61)
            CHECK(w->blocks[slot][k] == mark);
        free(w->blocks[slot]);
        uint64_t r = next_number(&w->random);
        w->lengths[slot] = r % 100 == 0 ? 200000 + r % 100000 : 1 + r % 3000;
        w->blocks[slot] = malloc(w->lengths[slot]);
        CHECK(w->blocks[slot] != NULL);
        memset(w->blocks[slot], mark, w->lengths[slot]);
    }
}

/* The accumulators stay in vector registers through the whole loop: a checkpoint in it finds them there. */
static void compute(struct worker *w, long round)
{
    vector a = {1.0 + w->number, 2.0, 3.0, (double)round}, b = {0.5, 0.25, 0.125, 0.0625}, c = w->sum;
    const double *beside = cells[round % 2][(w->number + 1) % WORKERS];
    const double *before = cells[round % 2][w->number];
    double *after = cells[(round + 1) % 2][w->number];
    for (int turn = 0; turn < 40; turn++)
        for (int i = 0; i < CELLS; i++) {
            vector x = {beside[i], a[1], b[2], c[3]};
            a = a * 0.9999 + x * 1e-4;
            b = b * 0.5 + a * 0.25;
            c = c + b - a * 1e-3;
        }
    w->sum = c;
    for (int i = 0; i < CELLS; i++)
        after[i] = before[i] * 0.75 + c[i % 4] * 1e-3 + i;
}

static void lock_by_the_book(struct worker *w)
{
    CHECK(pthread_mutex_lock(&checked) == 0);
    CHECK(pthread_mutex_lock(&checked) == EDEADLK);
    CHECK(pthread_mutex_unlock(&checked) == 0);
    CHECK(pthread_mutex_unlock(&checked) == EPERM);
    CHECK(pthread_mutex_lock(&nested) == 0);
    CHECK(pthread_mutex_lock(&nested) == 0);
    CHECK(pthread_mutex_unlock(&nested) == 0);
    CHECK(pthread_mutex_unlock(&nested) == 0);
    CHECK(pthread_mutex_lock(&plain) == 0);
    total += mine ^ (uint64_t)w->number;
    CHECK(pthread_mutex_unlock(&plain) == 0);
}

static void produce(uint64_t value)
{
    CHECK(pthread_mutex_lock(&queue_lock) == 0);
    while (queue_length == QUEUE)
        CHECK(pthread_cond_wait(&queue_emptied, &queue_lock) == 0);
    queue[(queue_head + queue_length++) % QUEUE] = value;
    CHECK(pthread_cond_signal(&queue_filled) == 0);
    CHECK(pthread_mutex_unlock(&queue_lock) == 0);
}

static void *consumer(void *expected)
{
    for (long n = *(long *)expected; n > 0; n--) {
        CHECK(pthread_mutex_lock(&queue_lock) == 0);
        while (queue_length == 0)
            CHECK(pthread_cond_wait(&queue_filled, &queue_lock) == 0);
        consumed += queue[queue_head++ % QUEUE];
        queue_length--;
        CHECK(pthread_cond_broadcast(&queue_emptied) == 0);
        CHECK(pthread_mutex_unlock(&queue_lock) == 0);
    }
    return NULL;
}

static void *worker(void *argument)
{
    struct worker *w = argument;
    char name[16], found[16];
    snprintf(name, sizeof name, "worker-%d", w->number);
    CHECK(pthread_setname_np(pthread_self(), name) == 0);
    mine = (uint64_t)w->number * 1000003;
    memset(mine_too, w->number + 1, sizeof mine_too);
    for (long round = 0; round < rounds; round++) {
        compute(w, round);
        churn(w);
        mine = mine * 31 + (uint64_t)round;
        lock_by_the_book(w);
        produce(mine);
        CHECK(mine_too[round % sizeof mine_too] == w->number + 1);
        int met = pthread_barrier_wait(&in_step);
        CHECK(met == 0 || met == PTHREAD_BARRIER_SERIAL_THREAD);
        met = pthread_barrier_wait(&in_step);
        CHECK(met == 0 || met == PTHREAD_BARRIER_SERIAL_THREAD);
    }
    CHECK(pthread_getname_np(pthread_self(), found, sizeof found) == 0 && strcmp(name, found) == 0);
    return (void *)(intptr_t)(w->number + 77);
}

/* Dies with the lock in its hand, so that the kernel must walk the robust list. */
static void *careless(void *unused)
{
    (void)unused;
    int taken = pthread_mutex_lock(&robust);
    CHECK(taken == 0 || taken == EOWNERDEAD);
    if (taken == EOWNERDEAD)
        CHECK(pthread_mutex_consistent(&robust) == 0);
    return NULL;
}

static void make_locks(void)
{
    pthread_mutexattr_t kind;
    CHECK(pthread_mutexattr_init(&kind) == 0);
    CHECK(pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK) == 0);
    CHECK(pthread_mutex_init(&checked, &kind) == 0);
    CHECK(pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE) == 0);
    CHECK(pthread_mutex_init(&nested, &kind) == 0);
    CHECK(pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_NORMAL) == 0);
    CHECK(pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutex_init(&robust, &kind) == 0);
    CHECK(pthread_barrier_init(&in_step, NULL, WORKERS + 1) == 0);
}

/* While the workers stand at the barrier: note the state in both files, start and join a thread. */
static uint64_t take_stock(long round, uint64_t sum, int log, int grid)
{
    double(*now)[CELLS] = cells[(round + 1) % 2];
    sum = fold(sum, now, sizeof cells[0]);
    char line[64];
    int length = snprintf(line, sizeof line, "round %ld sum %016lx\n", round, (unsigned long)sum);
    CHECK(write(log, line, (size_t)length) == length);
    CHECK(pwrite(grid, now[round % WORKERS], PIECE, round * PIECE) == PIECE);
    CHECK(lseek(grid, 8 * round, SEEK_SET) == 8 * round);
    if (round % 4 == 0) {
        pthread_t short_lived;
        CHECK(pthread_create(&short_lived, NULL, careless, NULL) == 0);
        CHECK(pthread_join(short_lived, NULL) == 0);
    }
    CHECK(lseek(grid, 0, SEEK_CUR) == 8 * round);
    return sum;
}

int main(int argc, char **argv)
{
    static struct worker workers[WORKERS];
    rounds = amount(argc, argv, 2500);
    make_locks();
    int log = open("progress.log", O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0644);
    int grid = open("grid.bin", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(log >= 0 && grid >= 0);
    long to_consume = rounds * WORKERS;
    pthread_t eater;
    CHECK(pthread_create(&eater, NULL, consumer, &to_consume) == 0);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].number = i;
        workers[i].random = (uint64_t)i + 1;
        CHECK(pthread_create(&workers[i].thread, NULL, worker, &workers[i]) == 0);
    }
    uint64_t sum = FOLD_START;
    for (long round = 0; round < rounds; round++) {
        pthread_barrier_wait(&in_step);
        sum = take_stock(round, sum, log, grid);
        pthread_barrier_wait(&in_step);
    }
    for (int i = 0; i < WORKERS; i++) {
        void *said;
        CHECK(pthread_join(workers[i].thread, &said) == 0 && (intptr_t)said == i + 77);
    }
    CHECK(pthread_join(eater, NULL) == 0);
    for (int i = 0; i < WORKERS; i++)
        sum = fold(sum, &workers[i].sum, sizeof workers[i].sum);
    printf("threads: sum %016lx total %016lx consumed %016lx\n", (unsigned long)sum, (unsigned long)total,
           (unsigned long)consumed);
    return 0;
}
