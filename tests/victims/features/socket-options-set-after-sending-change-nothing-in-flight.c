/* Options that act when something is sent do not act on what was sent before they were set: a Unix socket that asks for
 * credentials gets no name by a restart, and a datagram without a checksum would not arrive.
 *
 * expect: survive
 */
#include "check.h"
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/un.h>

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif

static void expect(int from, const char *wanted)
{
    char room[32] = {0};
    ssize_t length = (ssize_t)strlen(wanted);
    CHECK(recv(from, room, sizeof room, MSG_DONTWAIT) == length && strcmp(room, wanted) == 0);
}

static void expect_no_name(int of)
{
    struct sockaddr_un at;
    socklen_t length = sizeof at;
    CHECK(getsockname(of, (struct sockaddr *)&at, &length) == 0 && length == sizeof(sa_family_t));
}

int main(void)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    socklen_t length = sizeof at;
    int packets[2], datagrams[2], on = 1;
    int receiver = socket(AF_INET6, SOCK_DGRAM, 0), sender = socket(AF_INET6, SOCK_DGRAM, 0);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets) == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams) == 0);
    CHECK(send(packets[0], "one", 3, 0) == 3 && send(packets[1], "two", 3, 0) == 3 && send(datagrams[0], "three", 5, 0) == 5);
    CHECK(setsockopt(packets[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    CHECK(send(packets[1], "four", 4, 0) == 4);
    CHECK(setsockopt(datagrams[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    if (receiver < 0 || bind(receiver, (struct sockaddr *)&at, sizeof at) != 0)
        LACKS("IPv6");
    CHECK(getsockname(receiver, (struct sockaddr *)&at, &length) == 0);
    CHECK(connect(sender, (struct sockaddr *)&at, sizeof at) == 0 && send(sender, "five", 4, 0) == 4);
    CHECK(setsockopt(sender, IPPROTO_UDP, UDP_NO_CHECK6_TX, &on, sizeof on) == 0);
    for (int life = 0; life < 3; life++) {
        for (int end = 0; end < 2; end++)
            expect_no_name(packets[end]), expect_no_name(datagrams[end]);
        if (life < 2)
            moment("sent");
    }
    expect(packets[1], "one");
    expect(packets[0], "two");
    expect(packets[0], "four");
    expect(datagrams[1], "three");
    expect(receiver, "five");
    CHECK(getsockopt(packets[0], SOL_SOCKET, SO_PASSCRED, &on, &(socklen_t){sizeof on}) == 0 && on == 1);
    puts("nothing changed");
    return 0;
}
