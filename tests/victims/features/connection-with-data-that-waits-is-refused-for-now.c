/* A connection on which something was sent before it is accepted is refused by name: nobody can read it yet.
 *
 * expect: refuse "waits to be accepted"
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    char room[8];
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(server >= 0 && bind(server, (struct sockaddr *)&at, sizeof at) == 0 && listen(server, 5) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&at, &length) == 0 && connect(client, (struct sockaddr *)&at, length) == 0);
    CHECK(write(client, "x", 1) == 1);
    moment("one byte");
    int accepted = accept(server, NULL, NULL);
    CHECK(accepted >= 0 && read(accepted, room, 8) == 1);
    puts("read");
    return 0;
}
