/* A UDP socket that is connected to port 0 has no peer that getpeername(2) would return, but receives only from that address. So
 * it does after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

static struct sockaddr_in bound(int *made, in_addr_t address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
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

static void expect(int from, const char *wanted)
{
    char room[64] = {0};
    ssize_t length = (ssize_t)strlen(wanted);
    /* It may be on its way for a moment. */
    CHECK(recv(from, room, sizeof room, 0) == length && strcmp(room, wanted) == 0);
}

int main(void)
{
    int own, near, far;
    char byte;
    struct sockaddr_in at = bound(&own, INADDR_LOOPBACK), at_near = bound(&near, INADDR_LOOPBACK + 1), ignored;
    socklen_t length = sizeof ignored;
    bound(&far, INADDR_LOOPBACK + 2);
    send_to(&at, far, "before");
    at_near.sin_port = 0;
    CHECK(connect(own, (struct sockaddr *)&at_near, sizeof at_near) == 0);
    send_to(&at, near, "near");
    for (int life = 0; life < 3; life++) {
        CHECK(getpeername(own, (struct sockaddr *)&ignored, &length) == -1 && errno == ENOTCONN);
        if (life < 2)
            moment("connected");
    }
    send_to(&at, far, "too late");
    send_to(&at, near, "near again");
    expect(own, "before");
    expect(own, "near");
    expect(own, "near again");
    CHECK(recv(own, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    puts("stayed");
    return 0;
}
