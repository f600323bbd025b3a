/* An epoll instance reports sockets of every kind as before: what is readable, what is not, and what becomes so.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/epoll.h>

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    struct epoll_event events[8];
    int pair[2], server = socket(AF_INET, SOCK_STREAM, 0), client, watch = epoll_create1(0);
    char room[8];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && watch >= 0);
    CHECK(server >= 0 && setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0);
    CHECK(bind(server, (struct sockaddr *)&at, sizeof at) == 0 && listen(server, 5) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&at, &length) == 0);
    int watched[2] = {pair[0], server};
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        CHECK(epoll_ctl(watch, EPOLL_CTL_ADD, watched[i], &event) == 0);
    }
    moment("nothing");
    CHECK(epoll_wait(watch, events, 8, 0) == 0);
    CHECK(write(pair[1], "x", 1) == 1);
    CHECK((client = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && connect(client, (struct sockaddr *)&at, length) == 0);
    moment("both");
    CHECK(epoll_wait(watch, events, 8, 1000) == 2 && events[0].data.u32 + events[1].data.u32 == 1);
    CHECK(read(pair[0], room, 8) == 1 && accept(server, NULL, NULL) >= 0);
    CHECK(epoll_wait(watch, events, 8, 0) == 0);
    puts("reported");
    return 0;
}
