/* A UDP socket on which a datagram has been begun (MSG_MORE) is refused by name until the datagram is sent.
 *
 * expect: refuse "MSG_MORE"
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int main(void)
{
    int to = socket(AF_INET, SOCK_DGRAM, 0), from = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    char room[16] = {0};
    CHECK(bind(to, (struct sockaddr *)&name, sizeof name) == 0);
    CHECK(getsockname(to, (struct sockaddr *)&name, &length) == 0);
    CHECK(connect(from, (struct sockaddr *)&name, sizeof name) == 0);
    CHECK(send(from, "one ", 4, MSG_MORE) == 4);
    moment("begun");
    CHECK(send(from, "two", 3, 0) == 3);
    CHECK(recv(to, room, sizeof room, 0) == 7 && strcmp(room, "one two") == 0);
    puts("one datagram");
    return 0;
}
