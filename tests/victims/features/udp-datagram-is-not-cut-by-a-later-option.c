/* A UDP socket on which UDP_SEGMENT was set after it had sent a datagram does not cut that one when it is sent again, and cuts
 * what it sends afterwards.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    char sent[80] = {1}, room[100];
    int bytes = 40;
    int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(bind(receiver, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(receiver, (struct sockaddr *)&at, &length) == 0);
    CHECK(connect(sender, (struct sockaddr *)&at, sizeof at) == 0 && send(sender, sent, sizeof sent, 0) == sizeof sent);
    if (setsockopt(sender, IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof bytes) != 0)
        LACKS("UDP_SEGMENT");
    moment("set");
    moment("still set");
    CHECK(recv(receiver, room, sizeof room, MSG_DONTWAIT) == sizeof sent && memcmp(room, sent, sizeof sent) == 0);
    CHECK(send(sender, sent, sizeof sent, 0) == sizeof sent);
    /* They may be on their way for a moment. */
    CHECK(recv(receiver, room, sizeof room, 0) == bytes && recv(receiver, room, sizeof room, 0) == bytes);
    puts("whole");
    return 0;
}
