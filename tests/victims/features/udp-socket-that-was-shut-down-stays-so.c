/* A UDP socket of which receiving, sending or both have been shut down stays so, connected or not.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

enum { NOTHING = -1, KINDS = 4 };

static const int how[KINDS] = {NOTHING, SHUT_RD, SHUT_WR, SHUT_RDWR};
static const short shown[KINDS] = {POLLOUT, POLLOUT | POLLIN | POLLRDHUP, POLLOUT,
                                   POLLOUT | POLLIN | POLLRDHUP | POLLHUP};

static void expect(int made, int kind)
{
    struct pollfd poller = {.fd = made, .events = POLLIN | POLLOUT | POLLRDHUP};
    CHECK(poll(&poller, 1, 0) == 1 && poller.revents == shown[kind]);
}

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int sink = socket(AF_INET, SOCK_DGRAM, 0), connected[KINDS], alone[KINDS];
    socklen_t length = sizeof at;
    char byte;
    CHECK(sink >= 0 && bind(sink, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(sink, (struct sockaddr *)&at, &length) == 0);
    for (int kind = 0; kind < KINDS; kind++) {
        struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        CHECK((connected[kind] = socket(AF_INET, SOCK_DGRAM, 0)) >= 0);
        CHECK(connect(connected[kind], (struct sockaddr *)&at, sizeof at) == 0);
        CHECK((alone[kind] = socket(AF_INET, SOCK_DGRAM, 0)) >= 0);
        CHECK(bind(alone[kind], (struct sockaddr *)&own, sizeof own) == 0);
        if (how[kind] == NOTHING)
            continue;
        CHECK(shutdown(connected[kind], how[kind]) == 0);
        /* The kernel says no, and does it all the same. */
        CHECK(shutdown(alone[kind], how[kind]) == -1 && errno == ENOTCONN);
    }
    moment("shut down");
    for (int kind = 0; kind < KINDS; kind++) {
        int sends = how[kind] != SHUT_WR && how[kind] != SHUT_RDWR;
        expect(connected[kind], kind);
        expect(alone[kind], kind);
        ssize_t sent = send(connected[kind], "x", 1, MSG_NOSIGNAL);
        CHECK(sends ? sent == 1 : sent == -1 && errno == EPIPE);
        CHECK(!sends || recv(sink, &byte, 1, 0) == 1);
        sent = sendto(alone[kind], "y", 1, MSG_NOSIGNAL, (struct sockaddr *)&at, sizeof at);
        CHECK(sends ? sent == 1 : sent == -1 && errno == EPIPE);
        CHECK(!sends || recv(sink, &byte, 1, 0) == 1);
    }
    puts("shut");
    return 0;
}
