/* A thread that stands in a direct read (O_DIRECT) is stopped when the device has written all of it, and not before.
 *
 * expect: survive
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (1 << 20)
#define PARTS 4

static atomic_int over;
static int file;
static unsigned char *into;

static unsigned char expected(int part, long at)
{
    return (unsigned char)(part * 37 + at / 4096 + 1);
}

/* Reads one part after the other over the one before: what is missing of one shows. */
static void *read_on(void *unused)
{
    (void)unused;
    for (int turn = 0; !over; turn++) {
        int part = turn % PARTS;
        CHECK(pread(file, into, BYTES, (off_t)part * BYTES) == BYTES);
        for (long at = 0; at < BYTES; at += 512)
            CHECK(into[at] == expected(part, at));
    }
    return NULL;
}

int main(void)
{
    pthread_t reader;
    int made = open("data", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(made >= 0 && posix_memalign((void **)&into, 4096, BYTES) == 0);
    for (int part = 0; part < PARTS; part++) {
        for (long at = 0; at < BYTES; at++)
            into[at] = expected(part, at);
        CHECK(write(made, into, BYTES) == BYTES);
    }
    CHECK(fsync(made) == 0 && close(made) == 0);
    file = open("data", O_RDONLY | O_DIRECT);
    if (file < 0)
        LACKS("this file system has no direct reads");
    CHECK(pthread_create(&reader, NULL, read_on, NULL) == 0);
    moment("reading");
    moment("reading on");
    moment("and once more");
    over = 1;
    CHECK(pthread_join(reader, NULL) == 0 && close(file) == 0);
    puts("whole");
    return 0;
}
