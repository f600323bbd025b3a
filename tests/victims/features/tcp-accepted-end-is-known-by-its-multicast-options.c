/* An accepted TCP connection has multicast options that no program can set: the time to live, or the hops, of the packet that
 * opened the connection, and the interface that it came with. The other end does not have them. It is so again after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

struct pair {
    int connecting, accepted;
};

static int get(int socket, int level, int name)
{
    int value = -2;
    socklen_t length = sizeof value;
    CHECK(getsockopt(socket, level, name, &value, &length) == 0);
    return value;
}

static void set(int socket, int level, int name, int value)
{
    CHECK(setsockopt(socket, level, name, &value, sizeof value) == 0 && get(socket, level, name) == value);
}

/* With a time to live of its own, unless that is 0. */
static struct pair connection(int family, int time_to_live)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    struct pair made;
    if (family == AF_INET)
        memcpy(&at, &four, sizeof four);
    socklen_t length = sizeof at;
    int listener = socket(family, SOCK_STREAM, 0);
    if (listener < 0 || (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 && errno == EADDRNOTAVAIL))
        LACKS("IPv6");
    CHECK(listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &length) == 0);
    CHECK((made.connecting = socket(family, SOCK_STREAM, 0)) >= 0);
    if (time_to_live > 0 && family == AF_INET)
        set(made.connecting, IPPROTO_IP, IP_TTL, time_to_live);
    if (time_to_live > 0 && family == AF_INET6)
        set(made.connecting, IPPROTO_IPV6, IPV6_UNICAST_HOPS, time_to_live);
    CHECK(connect(made.connecting, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK((made.accepted = accept(listener, NULL, NULL)) >= 0 && close(listener) == 0);
    return made;
}

static void expect(const struct pair *pair, int time_to_live)
{
    CHECK(get(pair->accepted, IPPROTO_IP, IP_MULTICAST_TTL) == time_to_live);
    CHECK(get(pair->connecting, IPPROTO_IP, IP_MULTICAST_TTL) == 1);
}

static void expect_six(const struct pair *pair, int hops)
{
    CHECK(get(pair->accepted, IPPROTO_IPV6, IPV6_MULTICAST_HOPS) == hops);
    CHECK(get(pair->accepted, IPPROTO_IPV6, IPV6_MULTICAST_IF) > 0);
    CHECK(get(pair->connecting, IPPROTO_IPV6, IPV6_MULTICAST_HOPS) == 1);
    CHECK(get(pair->connecting, IPPROTO_IPV6, IPV6_MULTICAST_IF) == 0);
}

int main(void)
{
    struct pair plain = connection(AF_INET, 0), near = connection(AF_INET, 7), left = connection(AF_INET, 0);
    struct pair abandoned = connection(AF_INET, 9), six = connection(AF_INET6, 0), six_near = connection(AF_INET6, 8);
    int usual = get(plain.connecting, IPPROTO_IP, IP_TTL);
    int usual_hops = get(six.connecting, IPPROTO_IPV6, IPV6_UNICAST_HOPS);
    /* What the program has set since then does not count. */
    set(near.connecting, IPPROTO_IP, IP_TTL, 33);
    set(near.accepted, IPPROTO_IP, IP_TTL, 44);
    set(six_near.connecting, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 33);
    CHECK(close(left.accepted) == 0 && close(abandoned.connecting) == 0);
    for (int life = 0; life < 3; life++) {
        expect(&plain, usual);
        expect(&near, 7);
        expect_six(&six, usual_hops);
        expect_six(&six_near, 8);
        CHECK(get(left.connecting, IPPROTO_IP, IP_MULTICAST_TTL) == 1);
        CHECK(get(abandoned.accepted, IPPROTO_IP, IP_MULTICAST_TTL) == 9);
        CHECK(get(plain.connecting, IPPROTO_IP, IP_TTL) == usual && get(near.connecting, IPPROTO_IP, IP_TTL) == 33);
        CHECK(get(near.accepted, IPPROTO_IP, IP_TTL) == 44);
        CHECK(get(six.connecting, IPPROTO_IPV6, IPV6_UNICAST_HOPS) == usual_hops);
        CHECK(get(six_near.connecting, IPPROTO_IPV6, IPV6_UNICAST_HOPS) == 33);
        if (life < 2)
            moment("made");
    }
    puts("known");
    return 0;
}
