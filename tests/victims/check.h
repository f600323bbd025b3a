/* What every C victim shares: a check that speaks, and a generator whose numbers are the same everywhere.
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

/* How much to do: the first argument, or the usual amount. */
static inline long amount(int argc, char **argv, long usual)
{
    return argc > 1 ? atol(argv[1]) : usual;
}

#endif
