/* A listening socket with TCP_DEFER_ACCEPT keeps the connection that it had accepted, and one that has waited since before the
 * option was set and has sent nothing.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at, word = sizeof(int);
    char room[8];
    int seconds = 5, now = 0, ends[2];
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 5) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
    for (int each = 0; each < 2; each++) {
        ends[each] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(ends[each], (struct sockaddr *)&at, sizeof at) == 0);
    }
    int accepted = accept(listener, NULL, NULL);
    CHECK(accepted >= 0 && send(ends[0], "first", 5, 0) == 5);
    CHECK(setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds) == 0);
    CHECK(setsockopt(accepted, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds) == 0);
    CHECK(getsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, &word) == 0 && seconds > 0);
    moment("waiting");
    moment("still waiting");
    CHECK(getsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &now, &word) == 0 && now == seconds);
    CHECK(getsockopt(accepted, IPPROTO_TCP, TCP_DEFER_ACCEPT, &now, &word) == 0 && now == seconds);
    CHECK(recv(accepted, room, sizeof room, 0) == 5);
    int second = accept(listener, NULL, NULL);
    CHECK(second >= 0 && send(ends[1], "second", 6, 0) == 6 && recv(second, room, sizeof room, 0) == 6);
    puts("kept");
    return 0;
}
