/* Children with threads of their own, made by a process with threads, keep their threads, and these their locks.
 *
 * expect: survive
 */
#include "family.h"
#include <pthread.h>

enum { CHILDREN = 3, THREADS = 4 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int turn, rounds;

static void *take_turns(void *which)
{
    int own = (int)(long)which;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    for (;;) {
        while (turn != own && rounds >= 0)
            CHECK(pthread_cond_wait(&condition, &mutex) == 0);
        if (rounds < 0)
            break;
        turn = -1;
        rounds++;
        CHECK(pthread_cond_broadcast(&condition) == 0);
    }
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return NULL;
}

static void serve(struct line *line, int number)
{
    pthread_t threads[THREADS];
    be_child(line);
    turn = -1;
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, take_turns, (void *)i) == 0);
    for (int word; read(line->down[0], &word, sizeof word) == sizeof word;) {
        CHECK(pthread_mutex_lock(&mutex) == 0);
        turn = (word + number) % THREADS;
        CHECK(pthread_cond_broadcast(&condition) == 0);
        while (turn != -1)
            CHECK(pthread_cond_wait(&condition, &mutex) == 0);
        CHECK(pthread_mutex_unlock(&mutex) == 0);
        put(line->up[1], rounds);
    }
    CHECK(pthread_mutex_lock(&mutex) == 0);
    rounds = -1;
    CHECK(pthread_cond_broadcast(&condition) == 0 && pthread_mutex_unlock(&mutex) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    _exit(number);
}

int main(void)
{
    struct line lines[CHILDREN];
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        open_line(&lines[i]);
        CHECK((children[i] = fork()) >= 0);
        if (children[i] == 0)
            serve(&lines[i], i);
        be_parent(&lines[i]);
    }
    for (int word = 0; word < 6; word++) {
        for (int i = 0; i < CHILDREN; i++)
            put(lines[i].down[1], word);
        if (word % 2 == 0)
            moment("turns");
        for (int i = 0; i < CHILDREN; i++)
            CHECK(get(lines[i].up[0]) == word + 1);
    }
    for (int i = CHILDREN - 1; i >= 0; i--)
        CHECK(close(lines[i].down[1]) == 0);
    for (int i = CHILDREN - 1; i >= 0; i--)
        reap(children[i], i);
    puts("turns taken");
    return 0;
}
