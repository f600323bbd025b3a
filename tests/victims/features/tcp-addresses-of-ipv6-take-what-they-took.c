/* IPv6 sockets that were bound to an address of their own take only IPv6 (IPV6_V6ONLY), and those whose address the kernel has
 * chosen do not. An accepted connection is as its listening socket was. It is so again after a restart, of TCP and UDP.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

struct pair {
    int connecting, accepted;
};

static int six_only(int socket)
{
    int value = -2;
    socklen_t length = sizeof value;
    CHECK(getsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &value, &length) == 0);
    return value;
}

static struct in6_addr own_address(int socket)
{
    struct sockaddr_in6 at;
    socklen_t length = sizeof at;
    CHECK(getsockname(socket, (struct sockaddr *)&at, &length) == 0 && at.sin6_port != 0);
    return at.sin6_addr;
}

static int bound(int type, struct sockaddr_in6 *at, const struct in6_addr *address)
{
    socklen_t length = sizeof *at;
    int made = socket(AF_INET6, type, 0);
    *at = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = *address};
    if (made < 0 || (bind(made, (struct sockaddr *)at, sizeof *at) != 0 && errno == EADDRNOTAVAIL))
        LACKS("IPv6");
    CHECK(getsockname(made, (struct sockaddr *)at, &length) == 0);
    at->sin6_addr = in6addr_loopback;
    return made;
}

/* The connecting end is bound to `own`, unless that is null. */
static struct pair connection(const struct in6_addr *listening, const struct in6_addr *own)
{
    struct sockaddr_in6 at, ignored;
    struct pair made;
    int listener = bound(SOCK_STREAM, &at, listening);
    CHECK(listen(listener, 1) == 0);
    made.connecting = own != NULL ? bound(SOCK_STREAM, &ignored, own) : socket(AF_INET6, SOCK_STREAM, 0);
    CHECK(connect(made.connecting, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK((made.accepted = accept(listener, NULL, NULL)) >= 0 && close(listener) == 0);
    return made;
}

static void expect(int socket, int only)
{
    struct in6_addr now = own_address(socket);
    CHECK(six_only(socket) == only && memcmp(&now, &in6addr_loopback, sizeof now) == 0);
}

int main(void)
{
    struct sockaddr_in6 at;
    char room[8];
    struct pair plain = connection(&in6addr_loopback, NULL), open = connection(&in6addr_any, NULL);
    struct pair chosen = connection(&in6addr_any, &in6addr_any), strict = connection(&in6addr_any, &in6addr_loopback);
    struct pair abandoned = connection(&in6addr_any, NULL), left = connection(&in6addr_loopback, NULL);
    int alone = bound(SOCK_STREAM, &at, &in6addr_loopback);
    int receiver = bound(SOCK_DGRAM, &at, &in6addr_loopback), sender = socket(AF_INET6, SOCK_DGRAM, 0);
    CHECK(connect(sender, (struct sockaddr *)&at, sizeof at) == 0 && send(sender, "first", 5, 0) == 5);
    CHECK(close(abandoned.connecting) == 0 && close(left.accepted) == 0);
    CHECK(send(plain.connecting, "one", 3, 0) == 3 && send(open.accepted, "two", 3, 0) == 3);
    for (int life = 0; life < 3; life++) {
        expect(plain.connecting, 0), expect(plain.accepted, 1);
        expect(open.connecting, 0), expect(open.accepted, 0);
        expect(chosen.connecting, 0), expect(chosen.accepted, 0);
        expect(strict.connecting, 1), expect(strict.accepted, 0);
        expect(abandoned.accepted, 0), expect(left.connecting, 0);
        expect(alone, 1), expect(receiver, 1), expect(sender, 0);
        if (life < 2)
            moment("made");
    }
    CHECK(recv(plain.accepted, room, sizeof room, 0) == 3 && memcmp(room, "one", 3) == 0);
    CHECK(recv(open.connecting, room, sizeof room, 0) == 3 && memcmp(room, "two", 3) == 0);
    CHECK(recv(receiver, room, sizeof room, 0) == 5 && send(sender, "second", 6, 0) == 6);
    CHECK(recv(receiver, room, sizeof room, 0) == 6 && recv(abandoned.accepted, room, 1, 0) == 0);
    puts("taken");
    return 0;
}
