/* Stops one of its threads in the midst of the allocator, where that holds its locks, and says whether it has come to that. It
 * is stopped by a signal, whose handler stays until the gate opens; whether it holds a lock, another thread finds out that
 * asks the allocator for something and falls asleep over it.
 *
 * Self-contained, since it is compiled with other C libraries as well. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRIES 300
#define BLOCKS 800
#define BLOCK 20000

/* The linker brings the library in for a call of it. */
extern int standfast_is_protected(void);
extern int malloc_trim(size_t) __attribute__((weak));
extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
extern void mi_collect(bool) __attribute__((weak));

static volatile int is_inside, may_leave, is_asked, is_asking, asker_id, is_over;
static void *volatile kept;

static void stay(int signal)
{
    (void)signal;
    is_inside = 1;
    while (!may_leave)
        usleep(200);
    is_inside = 0;
}

/* Sizes that threads keep none of for themselves. */
static void *churn(void *unused)
{
    while (!is_over) {
        kept = malloc(5000);
        free(kept);
        kept = malloc(100000);
        free(kept);
    }
    return unused;
}

static void *ask(void *unused)
{
    asker_id = (int)syscall(SYS_gettid);
    while (!is_over) {
        if (!is_asked) {
            usleep(100);
            continue;
        }
        is_asking = 1;
        if (mallctl)
            mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
        else if (mi_collect)
            mi_collect(true);
        else if (malloc_trim)
            malloc_trim(0);
        else
            free(malloc(5000));
        is_asking = 0;
        is_asked = 0;
    }
    return unused;
}

/* As the kernel shows it, so that it does not matter how long the machine lets a thread wait that is awake. */
static bool is_asleep(int thread)
{
    char name[64], text[256];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", thread);
    int file = open(name, O_RDONLY);
    ssize_t bytes = read(file, text, sizeof text - 1);
    close(file);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *behind_name = strrchr(text, ')');
    return behind_name != NULL && behind_name[1] == ' ' && behind_name[2] == 'S';
}

static bool is_held(pthread_t thread)
{
    may_leave = 0;
    pthread_kill(thread, SIGUSR1);
    while (!is_inside)
        usleep(100);
    is_asked = 1;
    while (is_asked) {
        if (is_asking && is_asleep(asker_id) && is_asking)
            return true;
        usleep(100);
    }
    return false;
}

int main(void)
{
    static unsigned char *blocks[BLOCKS];
    uint32_t state = 1;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK);
        for (int at = 0; at < BLOCK; at++)
            blocks[i][at] = (unsigned char)((state = state * 1103515245u + 12345u) >> 16);
    }
    for (int i = 0; i + 1 < BLOCKS; i++)
        free(blocks[i]);

    pthread_t churner, asker;
    struct sigaction action = {.sa_handler = stay};
    if (sigaction(SIGUSR1, &action, NULL) || pthread_create(&churner, NULL, churn, NULL) ||
        pthread_create(&asker, NULL, ask, NULL))
        return 9;
    bool held = false;
    for (int try = 0; try < TRIES && !held; try++) {
        may_leave = 1;
        while (is_inside)
            usleep(100);
        held = is_held(churner);
    }
    dprintf(1, "protected %d, held %d\n", standfast_is_protected(), held);
    close(open("waiting", O_WRONLY | O_CREAT, 0644));
    while (access("gate", F_OK) != 0)
        usleep(500);
    may_leave = 1;
    while (is_inside || is_asked)
        usleep(100);
    is_over = 1;
    if (pthread_join(churner, NULL) || pthread_join(asker, NULL))
        return 9;
    free(blocks[BLOCKS - 1]);
    return 0;
}
