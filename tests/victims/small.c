/* The smallest interesting program: two threads and two pipes, a checksum, a sleep. Halfway it waits for a file named
 * `gate` to appear, busy all the while, so that a test decides what happens to it in the meantime. The result does not
 * depend on how long it waited. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <time.h>

static int there[2], back[2];
static const struct timespec a_while = {0, 500000};

static void *echo(void *unused)
{
    uint64_t number;
    (void)unused;
    while (read(there[0], &number, sizeof number) == sizeof number) {
        number = number * 3 + 1;
        CHECK(write(back[1], &number, sizeof number) == sizeof number);
    }
    return NULL;
}

static uint64_t ask(uint64_t number)
{
    CHECK(write(there[1], &number, sizeof number) == sizeof number);
    CHECK(read(back[0], &number, sizeof number) == sizeof number);
    return number;
}

static uint64_t work(uint64_t sum, long rounds, int log)
{
    for (long round = 0; round < rounds; round++) {
        sum = fold(sum, &sum, sizeof sum) ^ ask((uint64_t)round);
        CHECK(nanosleep(&a_while, NULL) == 0);
        CHECK(write(log, &sum, sizeof sum) == sizeof sum);
    }
    return sum;
}

/* What is done here leaves no trace in the result, but is checked. */
static void wait_at_gate(void)
{
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    for (uint64_t turn = 0; access("gate", F_OK) != 0; turn++) {
        uint64_t left = turn, right = turn;
        for (int i = 0; i < 2000; i++)
            CHECK(next_number(&left) == next_number(&right));
        CHECK(ask(turn) == turn * 3 + 1);
        CHECK(nanosleep(&a_while, NULL) == 0);
    }
}

int main(int argc, char **argv)
{
    long rounds = amount(argc, argv, 20);
    pthread_t thread;
    int log = open("sums.bin", O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0644);
    CHECK(log >= 0 && pipe(there) == 0 && pipe(back) == 0);
    CHECK(pthread_create(&thread, NULL, echo, NULL) == 0);
    uint64_t sum = work(FOLD_START, rounds, log);
    wait_at_gate();
    sum = work(sum, rounds, log);
    CHECK(close(there[1]) == 0 && pthread_join(thread, NULL) == 0);
    printf("small: %016lx\n", (unsigned long)sum);
    return 0;
}
