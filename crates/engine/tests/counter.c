// Two threads count in turn, with floating point, a pipe, a sleep and a rolling sum; writes the sum at the end.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static int turn;
static uint64_t sum = 1;
static double product = 1;
static long rounds;
static __thread int own;

static void *count(void *argument) {
    own = (int)(long)argument;
    for (long round = 0; round < rounds; round++) {
        pthread_mutex_lock(&lock);
        while (turn != own) pthread_cond_wait(&turn_changed, &lock);
        for (int step = 0; step < 3000; step++) {
            sum = sum * 6364136223846793005ull + own + 1;
            product = product * 1.0000001 + 1e-9 * (double)(sum >> 60);
        }
        turn = !own;
        pthread_cond_broadcast(&turn_changed);
        pthread_mutex_unlock(&lock);
        struct timespec moment = {0, 100000};
        if (nanosleep(&moment, NULL)) exit(3);
    }
    return NULL;
}

int main(int count_of_arguments, char **arguments) {
    rounds = count_of_arguments > 1 ? atol(arguments[1]) : 100;
    int ends[2];
    uint64_t held = 42;
    if (pipe(ends) || write(ends[1], &held, sizeof held) != sizeof held) return 4;
    pthread_t other;
    if (pthread_create(&other, NULL, count, (void *)1)) return 5;
    count((void *)0);
    if (pthread_join(other, NULL)) return 6;
    if (read(ends[0], &held, sizeof held) != sizeof held || held != 42) return 7;
    FILE *result = count_of_arguments > 2 ? fopen(arguments[2], "w") : stdout;
    if (!result) return 8;
    fprintf(result, "%016lx %.17g\n", sum, product);
    return fclose(result) ? 9 : 0;
}
