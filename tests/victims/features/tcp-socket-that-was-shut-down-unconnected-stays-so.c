/* A TCP socket that was never connected can be shut down, although shutdown(2) reports an error. Then reading from it ends at
 * once, and poll(2) says so. So it does after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static short events(int of)
{
    struct pollfd polled = {.fd = of, .events = POLLIN | POLLRDHUP};
    CHECK(poll(&polled, 1, 0) == 1);
    return polled.revents;
}

static int shut_down(int how)
{
    int made = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(made >= 0);
    if (how >= 0)
        CHECK(shutdown(made, how) == -1 && errno == ENOTCONN);
    return made;
}

int main(void)
{
    char byte;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int reading = shut_down(SHUT_RD), both = shut_down(SHUT_RDWR), none = shut_down(-1);
    CHECK(bind(reading, (struct sockaddr *)&at, sizeof at) == 0);
    for (int life = 0; life < 3; life++) {
        CHECK(events(reading) == (POLLIN | POLLRDHUP | POLLHUP) && events(both) == (POLLIN | POLLRDHUP | POLLHUP));
        CHECK(events(none) == POLLHUP);
        CHECK(recv(reading, &byte, 1, 0) == 0 && recv(both, &byte, 1, 0) == 0);
        CHECK(recv(none, &byte, 1, 0) == -1 && errno == ENOTCONN);
        CHECK(send(both, "!", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
        if (life < 2)
            moment("shut down");
    }
    puts("stayed");
    return 0;
}
