/* A UDP socket of IPv6 has the address that the kernel chose when it was connected for the first time, also when it was connected
 * to an address of IPv4 afterwards.
 *
 * expect: survive
 * rest: few programs connect one socket to both
 */
#include "datagrams.h"

static void expect_name(int own, in_port_t port)
{
    struct sockaddr_in6 name, peer;
    socklen_t length = sizeof name;
    CHECK(getsockname(own, (struct sockaddr *)&name, &length) == 0 && IN6_IS_ADDR_LOOPBACK(&name.sin6_addr));
    CHECK(getpeername(own, (struct sockaddr *)&peer, &length) == 0 && IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr));
    CHECK(peer.sin6_port == port);
}

int main(void)
{
    int own = socket(AF_INET6, SOCK_DGRAM, 0), four;
    struct sockaddr_in at_four = bound(&four, INADDR_LOOPBACK);
    struct sockaddr_in6 first = {.sin6_family = AF_INET6, .sin6_port = htons(9), .sin6_addr = in6addr_loopback};
    struct sockaddr_in6 second = {.sin6_family = AF_INET6, .sin6_port = at_four.sin_port};
    CHECK(inet_pton(AF_INET6, "::ffff:127.0.0.1", &second.sin6_addr) == 1);
    if (own < 0 || connect(own, (struct sockaddr *)&first, sizeof first) != 0)
        LACKS("IPv6");
    CHECK(connect(own, (struct sockaddr *)&second, sizeof second) == 0);
    for (int life = 0; life < 3; life++) {
        expect_name(own, at_four.sin_port);
        if (life < 2)
            moment("connected to both");
    }
    puts("kept");
    return 0;
}
