/* A UDP socket that is connected keeps the datagrams that others had sent to it before that, in order and with their
 * senders. Afterwards only its peer reaches it.
 *
 * expect: survive
 */
#include "datagrams.h"

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
    at = bound(&own, INADDR_LOOPBACK);
    struct sockaddr_in at_other = bound(&other, INADDR_LOOPBACK), at_peer = bound(&peer, INADDR_LOOPBACK);
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
