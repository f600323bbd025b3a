/* What the programs in C share: the papers' directives or nothing in their place, arguments, random numbers that are the
 * same everywhere, a checksum, and the verdict of a self-check.
 *
 * Without -DCKPT a directive evaluates nothing and the program needs nothing of Standfast.
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CKPT
#include <ckpt.h>
#else
#define exclude_bytes(address, bytes, usage) ((void)0)
#define include_bytes(address, bytes) ((void)0)
#define checkpoint_here() ((void)0)
#endif

static inline void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "wrong");
    exit(1);
}

/* The argument at `place`, or `otherwise` where there are fewer. */
static inline long argument(int count, char **words, int place, long otherwise, long least, long most)
{
    if (place >= count)
        return otherwise;
    char *end;
    errno = 0;
    long value = strtol(words[place], &end, 10);
    if (errno || end == words[place] || *end != '\0' || value < least || value > most) {
        fprintf(stderr, "%s: %s is not a number from %ld to %ld\n", words[0], words[place], least, most);
        exit(2);
    }
    return value;
}

static inline void *memory(size_t bytes)
{
    void *address = calloc(bytes, 1);
    if (!address)
        fail("memory");
    return address;
}

/* SplitMix64 (Steele, Lea, Flood 2014): a number that depends on nothing but `index`. */
static inline uint64_t mixed(uint64_t index)
{
    uint64_t bits = (index + 1) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return bits ^ bits >> 31;
}

#define CHECKSUM_START 0xcbf29ce484222325u

/* FNV-1a over bytes, going on from `hash`: one flipped bit anywhere shows. */
static inline uint64_t checksum(uint64_t hash, const void *address, size_t bytes)
{
    const unsigned char *byte = address;
    for (size_t at = 0; at < bytes; at++)
        hash = (hash ^ byte[at]) * 0x100000001b3u;
    return hash;
}

/* Prints what a self-check found; a program whose result is not true ends with status 1. */
static inline void check(const char *what, double found, double most)
{
    int holds = found <= most; /* and not a NaN */
    printf("check %s: %.3g, at most %.3g: %s\n", what, found, most, holds ? "ok" : "WRONG");
    fflush(stdout);
    if (!holds)
        exit(1);
}

#endif
