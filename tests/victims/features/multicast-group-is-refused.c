/* A socket that has joined a multicast group is refused by name.
 *
 * expect: refuse "multicast"
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int main(void)
{
    struct ip_mreq group = {.imr_multiaddr.s_addr = inet_addr("239.255.77.77"), .imr_interface.s_addr = htonl(INADDR_LOOPBACK)};
    int made = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(made >= 0);
    if (setsockopt(made, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) != 0)
        LACKS("multicast");
    moment("member");
    puts("member");
    return 0;
}
