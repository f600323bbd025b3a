/* What is in flight on a TCP connection to oneself, both ways, arrives whole and in order, also of an end shut
 * down or closed.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static char sent[100000], got[sizeof sent];

static void join(int family, int *server, int ends[2])
{
    const int on = 1;
    struct sockaddr_storage at;
    socklen_t length = sizeof at;
    if (*server < 0) {
        struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        CHECK((*server = socket(family, SOCK_STREAM, 0)) >= 0);
        CHECK(setsockopt(*server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
        CHECK(bind(*server, (struct sockaddr *)&here, sizeof here) == 0 && listen(*server, 5) == 0);
    }
    CHECK(getsockname(*server, (struct sockaddr *)&at, &length) == 0);
    CHECK((ends[0] = socket(family, SOCK_STREAM, 0)) >= 0 && connect(ends[0], (struct sockaddr *)&at, length) == 0);
    CHECK((ends[1] = accept(*server, NULL, NULL)) >= 0);
}

static void take(int from, const char *wanted, size_t length)
{
    CHECK(recv(from, got, length, MSG_WAITALL) == (ssize_t)length && memcmp(got, wanted, length) == 0);
}

static uint16_t port(int of, int theirs)
{
    struct sockaddr_in at;
    socklen_t length = sizeof at;
    CHECK((theirs ? getpeername : getsockname)(of, (struct sockaddr *)&at, &length) == 0);
    return at.sin_port;
}

/* The connection is complete: to connect once more is an error, also the first time. */
static void expect_connected(int end)
{
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    CHECK(getpeername(end, (struct sockaddr *)&peer, &length) == 0);
    CHECK(connect(end, (struct sockaddr *)&peer, length) == -1 && errno == EISCONN);
}

int main(void)
{
    int server = -1, pair[2], half[2], lone[2], on = 1, value;
    socklen_t word = sizeof value;
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)next_number(&seed);
    join(AF_INET, &server, pair);
    join(AF_INET, &server, half);
    join(AF_INET, &server, lone);
    uint16_t ports[2] = {port(pair[0], 0), port(pair[1], 0)};
    CHECK(setsockopt(pair[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    moment("connected");
    CHECK(port(pair[0], 0) == ports[0] && port(pair[0], 1) == ports[1] && port(pair[1], 1) == ports[0]);
    expect_connected(pair[0]);
    expect_connected(pair[1]);
    CHECK(write(pair[0], sent, sizeof sent) == sizeof sent && write(pair[1], "the other way", 13) == 13);
    CHECK(write(half[0], "last words", 10) == 10 && shutdown(half[0], SHUT_WR) == 0);
    CHECK(write(lone[0], "testament", 9) == 9 && close(lone[0]) == 0);
    moment("in flight");
    take(pair[1], sent, 1000);
    take(pair[0], "the ", 4);
    CHECK(close(server) == 0);
    moment("read in part");
    CHECK(getsockopt(pair[0], IPPROTO_TCP, TCP_NODELAY, &value, &word) == 0 && value == 1);
    CHECK(getsockopt(pair[1], IPPROTO_TCP, TCP_NODELAY, &value, &word) == 0 && value == 0);
    take(pair[1], sent + 1000, sizeof sent - 1000);
    take(pair[0], "other way", 9);
    CHECK(recv(pair[1], got, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    take(half[1], "last words", 10);
    CHECK(read(half[1], got, 1) == 0 && write(half[1], "reply", 5) == 5);
    take(half[0], "reply", 5);
    expect_connected(half[0]);
    CHECK(send(half[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    take(lone[1], "testament", 9);
    moment("read");
    CHECK(read(lone[1], got, 1) == 0 && read(half[1], got, 1) == 0);
    CHECK(write(half[1], "again", 5) == 5);
    take(half[0], "again", 5);
    CHECK(shutdown(half[1], SHUT_WR) == 0 && read(half[0], got, 1) == 0);
    puts("no byte was lost, doubled or moved");
    return 0;
}
