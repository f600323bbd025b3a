/* What C victims with pseudo-terminals share: a pair, its settings, and reading what there is. */
#ifndef STANDFAST_VICTIM_TERMINAL_H
#define STANDFAST_VICTIM_TERMINAL_H

#include "family.h"
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

/* A master and a slave in raw mode or, if `lines`, with lines, echo and keys. */
static inline void open_terminal(int *master, int *slave, int lines)
{
    struct termios settings;
    CHECK(openpty(master, slave, NULL, NULL, NULL) == 0);
    if (lines)
        return;
    CHECK(tcgetattr(*slave, &settings) == 0);
    cfmakeraw(&settings);
    CHECK(tcsetattr(*slave, TCSANOW, &settings) == 0);
}

static inline void say(int to, const char *text)
{
    CHECK(write(to, text, strlen(text)) == (ssize_t)strlen(text));
}

/* One read gives exactly `text`. */
static inline void hear(int from, const char *text)
{
    char got[4096];
    ssize_t length = read(from, got, sizeof got);
    CHECK(length == (ssize_t)strlen(text) && memcmp(got, text, length) == 0);
}

/* The same where a read does not wait: the kernel hands over what was written a little later, maybe in pieces. */
static inline void hear_soon(int from, const char *text)
{
    for (size_t heard = 0; text[heard];) {
        char got[4096];
        struct pollfd poll_one = {from, POLLIN, 0};
        CHECK(poll(&poll_one, 1, 30000) == 1);
        ssize_t length = read(from, got, sizeof got);
        CHECK(length > 0 && strncmp(got, text + heard, length) == 0);
        heard += length;
    }
}

/* Several reads, if need be, give exactly `text`. */
static inline void hear_all(int from, const char *text)
{
    for (size_t heard = 0; text[heard];) {
        char got[4096];
        ssize_t length = read(from, got, sizeof got);
        CHECK(length > 0 && strncmp(got, text + heard, length) == 0);
        heard += length;
    }
}

/* Nothing can be read. */
static inline void hear_nothing(int from)
{
    struct pollfd poll_one = {from, POLLIN, 0};
    CHECK(poll(&poll_one, 1, 0) == 0);
}

#endif
