/* A UDP socket that is connected keeps the datagrams that others had sent to it before that, in order and with their
 * senders. Afterwards only its peer reaches it.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

static struct sockaddr_in bound(int *made)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    CHECK((*made = socket(AF_INET, SOCK_DGRAM, 0)) >= 0 && bind(*made, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(*made, (struct sockaddr *)&at, &length) == 0);
    return at;
}

static void send_to(const struct sockaddr_in *at, int from, const char *text)
{
    ssize_t length = (ssize_t)strlen(text);
    CHECK(sendto(from, text, (size_t)length, 0, (const struct sockaddr *)at, sizeof *at) == length);
}

static void expect(int from, const char *wanted, uint16_t port)
{
    struct sockaddr_in sender;
    socklen_t length = sizeof sender;
    char room[64] = {0};
    CHECK(recvfrom(from, room, sizeof room, MSG_DONTWAIT, (struct sockaddr *)&sender, &length) == (ssize_t)strlen(wanted));
    CHECK(strcmp(room, wanted) == 0 && sender.sin_port == port && sender.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
}

int main(void)
{
    struct sockaddr_in at, peer_now;
    socklen_t length = sizeof peer_now;
    char byte;
    int own, other, peer;
    at = bound(&own);
    struct sockaddr_in at_other = bound(&other), at_peer = bound(&peer);
    send_to(&at, other, "from another");
    send_to(&at, peer, "from the peer to come");
    send_to(&at, other, "from another again");
    CHECK(connect(own, (struct sockaddr *)&at_peer, sizeof at_peer) == 0);
    send_to(&at, peer, "from the peer");
    /* The other one has a peer as well, which had sent nothing. */
    CHECK(connect(other, (struct sockaddr *)&at, sizeof at) == 0);
    moment("connected");
    expect(own, "from another", at_other.sin_port);
    moment("one was taken");
    expect(own, "from the peer to come", at_peer.sin_port);
    expect(own, "from another again", at_other.sin_port);
    expect(own, "from the peer", at_peer.sin_port);
    CHECK(recv(own, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    CHECK(getpeername(own, (struct sockaddr *)&peer_now, &length) == 0 && peer_now.sin_port == at_peer.sin_port);
    send_to(&at, other, "too late");
    CHECK(recv(own, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    send_to(&at, peer, "in time");
    expect(own, "in time", at_peer.sin_port);
    puts("kept");
    return 0;
}
