/* A UDP socket that is bound to any address sends from that of an interface. An unread datagram still shows which one, for IPv4
 * and for an IPv6 socket that sends to an IPv4 host.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

enum { SOURCE = INADDR_LOOPBACK + 4 };

static in_port_t bound(int *made, int family, in_addr_t address)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = address};
    struct sockaddr_in6 at = {.sin6_family = AF_INET6};
    if (family == AF_INET)
        memcpy(&at, &four, sizeof four);
    socklen_t length = sizeof at;
    CHECK((*made = socket(family, SOCK_DGRAM, 0)) >= 0);
    if (bind(*made, (struct sockaddr *)&at, sizeof at) != 0 && errno == EADDRNOTAVAIL)
        LACKS("IPv6");
    CHECK(getsockname(*made, (struct sockaddr *)&at, &length) == 0);
    return at.sin6_port;
}

static void send_from(int from, int level, int kind, const void *information, size_t bytes, struct msghdr message)
{
    char control[CMSG_SPACE(sizeof(struct in6_pktinfo))] = {0};
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = level;
    header->cmsg_type = kind;
    header->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(header), information, bytes);
    CHECK(sendmsg(from, &message, 0) == 5);
}

static void expect(int from, uint16_t port)
{
    struct sockaddr_in sender;
    socklen_t length = sizeof sender;
    char room[8];
    CHECK(recvfrom(from, room, sizeof room, MSG_DONTWAIT, (struct sockaddr *)&sender, &length) == 5);
    CHECK(memcmp(room, "hello", 5) == 0 && sender.sin_port == port && sender.sin_addr.s_addr == htonl(SOURCE));
}

int main(void)
{
    int receiver, late, sender, six;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6};
    struct iovec piece = {"hello", 5};
    struct in_pktinfo source = {.ipi_spec_dst.s_addr = htonl(SOURCE)};
    struct in6_pktinfo source_six = {0};
    inet_pton(AF_INET6, "::ffff:127.0.0.5", &source_six.ipi6_addr);
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr);
    in_port_t port = bound(&receiver, AF_INET, htonl(INADDR_ANY)), other = bound(&late, AF_INET, at.sin_addr.s_addr);
    in_port_t own = bound(&sender, AF_INET, htonl(INADDR_ANY)), own_six = bound(&six, AF_INET6, 0);
    at.sin_port = mapped.sin6_port = port;
    struct msghdr to = {.msg_name = &at, .msg_namelen = sizeof at, .msg_iov = &piece, .msg_iovlen = 1};
    struct msghdr to_mapped = {.msg_name = &mapped, .msg_namelen = sizeof mapped, .msg_iov = &piece, .msg_iovlen = 1};
    send_from(sender, IPPROTO_IP, IP_PKTINFO, &source, sizeof source, to);
    send_from(six, IPPROTO_IPV6, IPV6_PKTINFO, &source_six, sizeof source_six, to_mapped);
    /* One that is connected afterwards, to the same port at another address. */
    at.sin_port = other;
    send_from(sender, IPPROTO_IP, IP_PKTINFO, &source, sizeof source, to);
    at.sin_port = own;
    CHECK(connect(late, (struct sockaddr *)&at, sizeof at) == 0);
    moment("in flight");
    moment("still in flight");
    expect(receiver, own);
    expect(receiver, own_six);
    expect(late, own);
    puts("kept");
    return 0;
}
