/* A TCP socket that the kernel encrypts (kernel TLS) is refused by name.
 *
 * expect: refuse "TCP_ULP"
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
    CHECK(one >= 0 && connect(one, (struct sockaddr *)&at, sizeof at) == 0);
    int other = accept(listener, NULL, NULL);
    CHECK(other >= 0 && close(listener) == 0);
    if (setsockopt(one, IPPROTO_TCP, TCP_ULP, "tls", 3) != 0)
        LACKS("encryption by the kernel (the module tls)");
    moment("encrypted");
    CHECK(close(one) == 0 && close(other) == 0);
    puts("closed");
    return 0;
}
