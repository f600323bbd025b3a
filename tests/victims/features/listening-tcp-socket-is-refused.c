/* A program that listens on a TCP port is refused by name.
 *
 * expect: refuse "socket"
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listening >= 0 && bind(listening, (struct sockaddr *)&here, sizeof here) == 0 && listen(listening, 1) == 0);
    moment("listening");
    CHECK(close(listening) == 0);
    puts("listened");
    return 0;
}
