/* A program to look into with a debugger: three threads in known functions, a child unless the first argument is `alone`,
 * and values of each kind of memory. It counts 1000 rounds and pauses at a gate after each 50th. From round 700 on, `energy` is wrong. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { ROUNDS = 1000, WRONG_FROM = 700, GATE_EACH = 50 };

long round_number;
long energy = 1000;
/* A page of this file that nobody writes to. */
const char greeting[] = "as the linker wrote it";
/* Written once: later checkpoints inherit these pages. */
unsigned char constant[1 << 20];
/* Never written. */
unsigned char untouched[1 << 20];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int over, waiting;

static void wait_for_end(long depth, long number)
{
    volatile long local = 100 * depth + number;
    if (depth > 0) {
        wait_for_end(depth - 1, number);
        CHECK(local == 100 * depth + number);
        return;
    }
    CHECK(pthread_mutex_lock(&mutex) == 0);
    waiting++;
    while (!over)
        CHECK(pthread_cond_wait(&condition, &mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static void *work(void *number)
{
    wait_for_end(2, (long)number);
    return NULL;
}

static void child_waits(void)
{
    energy = -1;
    for (;;)
        pause();
}

static void count_a_round(void)
{
    round_number++;
    if (round_number == WRONG_FROM)
        energy++;
    if (round_number % GATE_EACH == 0)
        moment("round");
}

static void await_threads(int number)
{
    int here = 0;
    while (here < number) {
        CHECK(pthread_mutex_lock(&mutex) == 0);
        here = waiting;
        CHECK(pthread_mutex_unlock(&mutex) == 0);
        usleep(200);
    }
}

int main(int argc, char **argv)
{
    int is_alone = argc > 1 && strcmp(argv[1], "alone") == 0;
    pthread_t threads[2];
    for (size_t at = 0; at < sizeof constant; at++)
        constant[at] = (unsigned char)(at % 251);
    pid_t child = is_alone ? 1 : fork();
    CHECK(child >= 0);
    if (child == 0)
        child_waits();
    for (long number = 0; number < 2; number++)
        CHECK(pthread_create(&threads[number], NULL, work, (void *)(7 + number)) == 0);
    await_threads(2);
    while (round_number < ROUNDS)
        count_a_round();
    CHECK(pthread_mutex_lock(&mutex) == 0);
    over = 1;
    CHECK(pthread_cond_broadcast(&condition) == 0 && pthread_mutex_unlock(&mutex) == 0);
    for (int number = 0; number < 2; number++)
        CHECK(pthread_join(threads[number], NULL) == 0);
    CHECK(is_alone || (kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child));
    printf("debugged: %ld\n", round_number);
    return 0;
}
