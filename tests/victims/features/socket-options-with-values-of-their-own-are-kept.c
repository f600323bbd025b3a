/* Options of sockets that take no plain number, or need a value of their own, are told by getsockopt after a restart as
 * before: linger, times, sizes of buffers, priority, congestion control, multicast, offload, options of headers and netlink.
 *
 * expect: survive
 */
#include "check.h"
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { OPTIONS = 40, VALUE_MAX = 64 };
static struct option {
    int made, level, name;
    socklen_t length;
    unsigned char bytes[VALUE_MAX];
} options[OPTIONS];
static int count;

static void look(struct option *it)
{
    it->length = sizeof it->bytes;
    memset(it->bytes, 0, sizeof it->bytes);
    CHECK(getsockopt(it->made, it->level, it->name, it->bytes, &it->length) == 0);
}

static void set(int made, int level, int name, const void *value, socklen_t length)
{
    CHECK(count < OPTIONS && setsockopt(made, level, name, value, length) == 0);
    options[count] = (struct option){.made = made, .level = level, .name = name};
    look(&options[count++]);
}

static void set_number(int made, int level, int name, int value)
{
    set(made, level, name, &value, sizeof value);
}

static int make(int family, int kind)
{
    int made = socket(family, kind, 0);
    CHECK(made >= 0);
    return made;
}

int main(void)
{
    struct linger linger = {1, 7};
    struct timeval time = {3, 250000};
    struct in_addr local = {htonl(INADDR_LOOPBACK)};
    int tcp = make(AF_INET, SOCK_STREAM), udp = make(AF_INET, SOCK_DGRAM), local_pair[2];
    int netlink = make(AF_NETLINK, SOCK_RAW), udp6 = socket(AF_INET6, SOCK_DGRAM, 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, local_pair) == 0);
    set(tcp, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    set(tcp, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    set(local_pair[0], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    set_number(tcp, SOL_SOCKET, SO_SNDBUF, 50000);
    set_number(udp, SOL_SOCKET, SO_RCVBUF, 60000);
    set_number(local_pair[0], SOL_SOCKET, SO_SNDBUF, 70000);
    set_number(udp, SOL_SOCKET, SO_PRIORITY, 5);
    set(tcp, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    set(udp, IPPROTO_IP, IP_OPTIONS, "\x01\x01\x01\x00", 4);
    set_number(udp, IPPROTO_IP, IP_MULTICAST_TTL, 9);
    set_number(udp, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
    set_number(udp, IPPROTO_IP, 49 /* IP_MULTICAST_ALL */, 0);
    set(udp, IPPROTO_IP, IP_MULTICAST_IF, &local, sizeof local);
    set_number(udp, IPPROTO_UDP, 103 /* UDP_SEGMENT */, 900);
    set_number(udp, IPPROTO_UDP, 104 /* UDP_GRO */, 1);
    set_number(netlink, SOL_NETLINK, NETLINK_PKTINFO, 1);
    set_number(netlink, SOL_NETLINK, NETLINK_BROADCAST_ERROR, 1);
    set_number(netlink, SOL_NETLINK, NETLINK_NO_ENOBUFS, 1);
    set_number(netlink, SOL_NETLINK, NETLINK_CAP_ACK, 1);
    set_number(netlink, SOL_NETLINK, NETLINK_EXT_ACK, 1);
    if (udp6 >= 0) {
        set_number(udp6, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 9);
        set_number(udp6, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
        set_number(udp6, IPPROTO_IPV6, IPV6_MULTICAST_IF, 1);
        set_number(udp6, IPPROTO_UDP, 101 /* UDP_NO_CHECK6_TX */, 1);
        set_number(udp6, IPPROTO_UDP, 102 /* UDP_NO_CHECK6_RX */, 1);
    }
    moment("set");
    for (int i = 0; i < count; i++) {
        struct option now = options[i];
        look(&now);
        int same = now.length == options[i].length && memcmp(now.bytes, options[i].bytes, sizeof now.bytes) == 0;
        if (!same)
            dprintf(2, "option %d of level %d differs\n", now.name, now.level);
        CHECK(same);
    }
    puts("as they were set");
    return 0;
}
