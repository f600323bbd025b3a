/* What a TCP or UDP socket has received when its program makes the receive buffer smaller can still be read after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { BYTES = 40000, DATAGRAMS = 20, DATAGRAM_BYTES = 1000 };

static char sent[BYTES], room[BYTES];

static void await_bytes(int socket, int wanted)
{
    int bytes = 0;
    do
        CHECK(ioctl(socket, FIONREAD, &bytes) == 0);
    while (bytes < wanted);
}

static int make_smaller(int socket)
{
    int value = 1;
    socklen_t length = sizeof value;
    CHECK(setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &value, sizeof value) == 0);
    CHECK(getsockopt(socket, SOL_SOCKET, SO_RCVBUF, &value, &length) == 0);
    return value;
}

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    uint64_t state = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0), value = 0;
    for (int i = 0; i < BYTES; i++)
        sent[i] = (char)next_number(&state);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
    CHECK(connect(client, (struct sockaddr *)&at, sizeof at) == 0);
    int accepted = accept(listener, NULL, NULL);
    CHECK(accepted >= 0 && write(client, sent, BYTES) == BYTES);
    await_bytes(accepted, BYTES);
    at.sin_port = 0;
    CHECK(bind(receiver, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(receiver, (struct sockaddr *)&at, &length) == 0);
    CHECK(connect(sender, (struct sockaddr *)&at, sizeof at) == 0);
    for (int i = 0; i < DATAGRAMS; i++)
        CHECK(send(sender, sent + i, DATAGRAM_BYTES, 0) == DATAGRAM_BYTES);
    int bytes = make_smaller(accepted);
    CHECK(make_smaller(receiver) == bytes);
    moment("made smaller");
    moment("still smaller");
    length = sizeof value;
    CHECK(getsockopt(accepted, SOL_SOCKET, SO_RCVBUF, &value, &length) == 0 && value == bytes);
    CHECK(getsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &value, &length) == 0 && value == bytes);
    CHECK(recv(accepted, room, BYTES, MSG_WAITALL) == BYTES && memcmp(room, sent, BYTES) == 0);
    for (int i = 0; i < DATAGRAMS; i++)
        CHECK(recv(receiver, room, BYTES, MSG_DONTWAIT) == DATAGRAM_BYTES && memcmp(room, sent + i, DATAGRAM_BYTES) == 0);
    puts("read");
    return 0;
}
