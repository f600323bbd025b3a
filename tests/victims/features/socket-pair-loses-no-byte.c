/* Bytes in flight on a socket pair, both ways, arrive whole and in order; so do those of an end that was shut down
 * or closed.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/ioctl.h>

static char sent[200000], got[sizeof sent];

static void take(int from, const char *wanted, size_t length)
{
    size_t have = 0;
    while (have < length) {
        ssize_t bytes = read(from, got + have, length - have);
        CHECK(bytes > 0);
        have += (size_t)bytes;
    }
    CHECK(memcmp(got, wanted, length) == 0);
}

int main(void)
{
    int pair[2], half[2], lone[2], waiting;
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)next_number(&seed);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, half) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, lone) == 0);
    moment("empty");
    ssize_t full = send(pair[0], sent, sizeof sent, MSG_DONTWAIT);
    CHECK(full > 10000 && write(pair[1], "the other way", 13) == 13);
    CHECK(write(half[0], "last words", 10) == 10 && shutdown(half[0], SHUT_WR) == 0);
    CHECK(write(lone[0], "testament", 9) == 9 && close(lone[0]) == 0);
    moment("in flight");
    CHECK(ioctl(pair[1], FIONREAD, &waiting) == 0 && waiting == full);
    take(pair[1], sent, 1000);
    moment("read in part");
    take(pair[1], sent + 1000, (size_t)full - 1000);
    take(pair[0], "the other way", 13);
    CHECK(recv(pair[1], got, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    take(half[1], "last words", 10);
    CHECK(read(half[1], got, 1) == 0 && write(half[1], "reply", 5) == 5);
    take(half[0], "reply", 5);
    CHECK(send(half[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    take(lone[1], "testament", 9);
    moment("read");
    CHECK(read(lone[1], got, 1) == 0 && send(lone[1], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    CHECK(read(half[1], got, 1) == 0 && write(half[1], "reply", 5) == 5);
    take(half[0], "reply", 5);
    puts("no byte was lost, doubled or moved");
    return 0;
}
