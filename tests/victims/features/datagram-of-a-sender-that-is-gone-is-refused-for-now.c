/* A datagram whose sender had a name and is closed by now is refused as long as it waits.
 *
 * expect: refuse "datagram" "sender"
 * doctor-blind: what is in flight is looked at only while the program is stopped
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    char byte;
    int to = socket(AF_INET, SOCK_DGRAM, 0), from = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(to >= 0 && bind(to, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(to, (struct sockaddr *)&at, &length) == 0);
    CHECK(from >= 0 && sendto(from, "x", 1, 0, (struct sockaddr *)&at, sizeof at) == 1 && close(from) == 0);
    moment("waits");
    CHECK(read(to, &byte, 1) == 1 && byte == 'x' && close(to) == 0);
    puts("read");
    return 0;
}
