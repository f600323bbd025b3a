/* A UDP socket that is connected to port 0 has no peer that getpeername(2) would return, but receives only from that address. So
 * it does after a restart.
 *
 * expect: survive
 */
#include "datagrams.h"

static void expect(int from, const char *wanted)
{
    char room[64] = {0};
    ssize_t length = (ssize_t)strlen(wanted);
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
