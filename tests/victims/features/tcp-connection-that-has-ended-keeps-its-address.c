/* The local address of a TCP connection is what it was when one side, or both, have ended it, also while the server goes on to
 * listen there.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

enum { CASES = 6, RANGE_OF_PORTS = 51 };

static struct sockaddr_in name_of(int made)
{
    struct sockaddr_in at;
    socklen_t length = sizeof at;
    CHECK(getsockname(made, (struct sockaddr *)&at, &length) == 0 && length == sizeof at);
    return at;
}

/* Until the other side has said that it is through. */
static void await_end(int end)
{
    struct pollfd poller = {.fd = end, .events = POLLRDHUP};
    CHECK(poll(&poller, 1, -1) == 1 && poller.revents & POLLRDHUP);
}

static void end_connections(unsigned short port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct sockaddr_in before[CASES][2];
    int listener = socket(AF_INET, SOCK_STREAM, 0), pairs[CASES][2], one = 1;
    /* What has ended by now lingers at this port, and would keep it from a restart for a minute. */
    CHECK(listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    while (bind(listener, (struct sockaddr *)&at, sizeof at) != 0) {
        CHECK(port > 0 && errno == EADDRINUSE);
        at.sin_port = htons(++port);
    }
    CHECK(listen(listener, CASES) == 0);
    at = name_of(listener);
    for (int i = 0; i < CASES; i++) {
        int *pair = pairs[i];
        CHECK((pair[0] = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
        CHECK(connect(pair[0], (struct sockaddr *)&at, sizeof at) == 0);
        CHECK((pair[1] = accept(listener, NULL, NULL)) >= 0);
        for (int side = 0; side < 2; side++)
            before[i][side] = name_of(pair[side]);
        /* Half closed by either side; the other side gone; ended by both, by either first. */
        int first = i % 2;
        if (i < 2) {
            CHECK(shutdown(pair[first], SHUT_WR) == 0);
        } else if (i < 4) {
            CHECK(close(pair[first]) == 0);
            pair[first] = -1;
        } else {
            CHECK(shutdown(pair[first], SHUT_WR) == 0);
            await_end(pair[!first]);
            CHECK(shutdown(pair[!first], SHUT_WR) == 0);
            await_end(pair[first]);
        }
        if (pair[!first] >= 0 && i < 4)
            await_end(pair[!first]);
    }
    moment("ended");
    for (int i = 0; i < CASES; i++)
        for (int side = 0; side < 2; side++) {
            if (pairs[i][side] < 0)
                continue;
            struct sockaddr_in now = name_of(pairs[i][side]);
            CHECK(memcmp(&now, &before[i][side], sizeof now) == 0);
        }
    int client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(client >= 0 && connect(client, (struct sockaddr *)&at, sizeof at) == 0 && accept(listener, NULL, NULL) >= 0);
}

int main(void)
{
    int probe = socket(AF_INET, SOCK_STREAM, 0), none = 0;
    if (setsockopt(probe, IPPROTO_IP, RANGE_OF_PORTS, &none, sizeof none) != 0)
        LACKS("a choice of ports for a socket (Linux 6.3)");
    CHECK(close(probe) == 0);
    end_connections(0);
    /* Below those that the kernel chooses from. */
    end_connections((unsigned short)(10000 + getpid() % 10000));
    puts("at home");
    return 0;
}
