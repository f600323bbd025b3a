/* A TCP socket that is connected to itself is refused by name.
 *
 * expect: refuse "connected to itself"
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    char byte;
    int made = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(made >= 0 && bind(made, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(made, (struct sockaddr *)&at, &length) == 0 && connect(made, (struct sockaddr *)&at, length) == 0);
    moment("connected");
    CHECK(write(made, "x", 1) == 1 && read(made, &byte, 1) == 1);
    puts("heard itself");
    return 0;
}
