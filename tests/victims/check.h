/* What every C victim shares: a check that speaks, a generator whose numbers are the same everywhere, and gates.
 * A victim never tolerates a surprise: a wrong value or an unexpected errno ends it with status 9. */
#ifndef STANDFAST_VICTIM_CHECK_H
#define STANDFAST_VICTIM_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                                      \
    do {                                                                                                      \
        if (!(condition)) {                                                                                   \
            int error_ = errno;                                                                               \
            dprintf(2, "victim: %s:%d: not so: %s (errno %d, %s)\n", __FILE__, __LINE__, #condition, error_, \
                    strerror(error_));                                                                        \
            _exit(9);                                                                                         \
        }                                                                                                     \
    } while (0)

/* The machine lacks what this victim is about: a skipped test, not a passed one. */
#define LACKS(what)                               \
    do {                                          \
        dprintf(2, "this machine lacks %s", what); \
        _exit(77);                                \
    } while (0)

/* A gate: the harness strikes here, and opens it afterwards. Without a harness it is open. It leaves no trace: it
 * allocates nothing, opens no descriptor, keeps errno, and takes no offence at signals. Call it from any thread, but
 * from one at a time. */
static inline void moment(const char *name)
{
    static int number;
    const struct timespec blink = {0, 500000};
    const char *folder = getenv("VICTIM_MOMENTS");
    char arrived[4096], own[4096], all[4096];
    int error = errno;
    if (folder == NULL)
        return;
    number++;
    snprintf(arrived, sizeof arrived, "%s/at-%d-%s", folder, number, name);
    snprintf(own, sizeof own, "%s/open-%d", folder, number);
    snprintf(all, sizeof all, "%s/open-all", folder);
    CHECK(mknod(arrived, S_IFREG | 0644, 0) == 0 || errno == EEXIST);
    while (access(own, F_OK) != 0 && access(all, F_OK) != 0)
        nanosleep(&blink, NULL);
    errno = error;
}

/* Waits until another thread has set `flag`. */
static inline void await(volatile int *flag)
{
    while (!*flag)
        usleep(200);
}

/* Waits until the thread `tid` of this process sleeps in the system call `number`. */
static inline void await_call(pid_t tid, long number)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
    for (;;) {
        FILE *file = fopen(path, "r");
        CHECK(file != NULL);
        int told = fgets(text, sizeof text, file) != NULL;
        CHECK(fclose(file) == 0);
        if (told && text[0] >= '0' && text[0] <= '9' && atol(text) == number)
            return;
        usleep(200);
    }
}

/* splitmix64: a state of one word, so that every thread has its own. */
static inline uint64_t next_number(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Folds bytes into a running checksum (FNV-1a). */
static inline uint64_t fold(uint64_t sum, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ at[i]) * 0x100000001b3u;
    return sum;
}

#define FOLD_START 0xcbf29ce484222325u

/* How much to do: the first argument, or the usual amount, so many times as the environment says. */
static inline long amount(int argc, char **argv, long usual)
{
    const char *times = getenv("VICTIM_TIMES");
    return argc > 1 ? atol(argv[1]) : usual * (times != NULL ? atol(times) : 1);
}

#endif
