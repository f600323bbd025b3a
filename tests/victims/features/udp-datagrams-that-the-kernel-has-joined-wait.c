/* With UDP_GRO a program reads several datagrams as one, and how long they were. They cannot be sent again in that form. So a
 * checkpoint is refused, by name, until they have been read.
 *
 * expect: refuse "UDP_GRO"
 * doctor-blind: what is in flight is looked at only while the program is stopped
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    static char sent[3000], room[4000];
    int on = 1, bytes = 1000, total = 0;
    int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(bind(receiver, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(receiver, (struct sockaddr *)&at, &length) == 0);
    CHECK(connect(sender, (struct sockaddr *)&at, sizeof at) == 0);
    if (setsockopt(receiver, IPPROTO_UDP, UDP_GRO, &on, sizeof on) != 0
        || setsockopt(sender, IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof bytes) != 0)
        LACKS("UDP_GRO");
    CHECK(send(sender, sent, sizeof sent, 0) == sizeof sent);
    if (recv(receiver, room, sizeof room, MSG_PEEK) != sizeof sent)
        LACKS("a loopback device that leaves datagrams joined");
    moment("joined");
    while (total < (int)sizeof sent) {
        ssize_t got = recv(receiver, room, sizeof room, MSG_DONTWAIT);
        CHECK(got > 0);
        total += (int)got;
    }
    puts("read");
    return 0;
}
