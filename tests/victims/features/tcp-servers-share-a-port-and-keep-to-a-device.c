/* Servers that share a port (SO_REUSEPORT) and keep to a device (SO_BINDTODEVICE) have both again, with the connections that
 * they have accepted.
 *
 * expect: survive
 */
#include "check.h"
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static struct sockaddr_in address = {.sin_family = AF_INET};

static int server(void)
{
    int made = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    CHECK(made >= 0 && setsockopt(made, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0);
    if (setsockopt(made, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) != 0)
        LACKS("SO_BINDTODEVICE without privileges");
    CHECK(bind(made, (struct sockaddr *)&address, sizeof address) == 0 && listen(made, 5) == 0);
    return made;
}

static void keeps(int made)
{
    char device[IFNAMSIZ];
    int on = 0;
    socklen_t length = sizeof on, room = sizeof device;
    CHECK(getsockopt(made, SOL_SOCKET, SO_REUSEPORT, &on, &length) == 0 && on == 1);
    CHECK(getsockopt(made, SOL_SOCKET, SO_BINDTODEVICE, device, &room) == 0 && strcmp(device, "lo") == 0);
}

int main(void)
{
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int servers[2], calling[3], called[3];
    servers[0] = server();
    CHECK(getsockname(servers[0], (struct sockaddr *)&address, &length) == 0);
    servers[1] = server();
    for (int life = 0; life < 3; life++) {
        CHECK((calling[life] = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
        CHECK(connect(calling[life], (struct sockaddr *)&address, sizeof address) == 0);
        struct pollfd both[2] = {{servers[0], POLLIN, 0}, {servers[1], POLLIN, 0}};
        CHECK(poll(both, 2, -1) == 1);
        CHECK((called[life] = accept(servers[both[0].revents ? 0 : 1], NULL, NULL)) >= 0);
        moment("shared");
        keeps(servers[0]);
        keeps(servers[1]);
        for (int one = 0; one <= life; one++)
            CHECK(send(calling[one], "a", 1, 0) == 1 && recv(called[one], (char[1]){0}, 1, MSG_WAITALL) == 1);
    }
    puts("three calls");
    return 0;
}
