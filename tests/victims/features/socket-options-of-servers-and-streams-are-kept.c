/* Options that only some sockets can set are kept: decapsulation of UDP, the processor that serves a socket without a
 * peer, and the multicast options of a TCP socket, also of a connected one.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>

enum { ENCAP = 100, ESP_IN_UDP = 2, IPV6_ALL = 29 };

struct option {
    int socket, level, name, value;
};

static struct option options[32];
static int count;
static const char MESSAGE[] = "this was received before";

static int get(const struct option *option)
{
    int value = -2;
    socklen_t length = sizeof value;
    CHECK(getsockopt(option->socket, option->level, option->name, &value, &length) == 0);
    return value;
}

/* Sets an option to a value that a new socket does not have. A kernel may lack it. */
static void set(int socket, int level, int name, int value)
{
    struct option option = {socket, level, name, value};
    if (setsockopt(socket, level, name, &value, sizeof value) != 0) {
        CHECK(errno == ENOPROTOOPT || errno == EOPNOTSUPP);
        return;
    }
    CHECK(get(&option) == value);
    options[count++] = option;
}

int main(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    int udp = socket(AF_INET, SOCK_DGRAM, 0), connected = socket(AF_INET, SOCK_DGRAM, 0);
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    int six = socket(AF_INET6, SOCK_STREAM, 0);
    CHECK(udp >= 0 && connected >= 0 && server >= 0 && client >= 0);
    set(udp, SOL_SOCKET, SO_INCOMING_CPU, 0);
    CHECK(bind(udp, (struct sockaddr *)&here, sizeof here) == 0);
    CHECK(getsockname(udp, (struct sockaddr *)&here, &length) == 0);
    CHECK(connect(connected, (struct sockaddr *)&here, sizeof here) == 0);
    /* It would be taken for an encrypted packet if it came now. */
    CHECK(send(connected, MESSAGE, sizeof MESSAGE, 0) == sizeof MESSAGE);
    set(udp, IPPROTO_UDP, ENCAP, ESP_IN_UDP);
    set(connected, IPPROTO_UDP, ENCAP, ESP_IN_UDP);
    here.sin_port = 0;
    CHECK(bind(server, (struct sockaddr *)&here, sizeof here) == 0 && listen(server, 4) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&here, &length) == 0);
    set(server, SOL_SOCKET, SO_INCOMING_CPU, 0);
    CHECK(connect(client, (struct sockaddr *)&here, sizeof here) == 0);
    int accepted = accept(server, NULL, NULL);
    CHECK(accepted >= 0);
    set(client, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
    set(client, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    set(server, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    if (six >= 0) {
        set(six, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
        set(six, IPPROTO_IPV6, IPV6_ALL, 0);
    }
    for (int life = 0; life < 2; life++) {
        moment("set");
        for (int i = 0; i < count; i++)
            CHECK(get(&options[i]) == options[i].value);
        CHECK(get(&(struct option){accepted, IPPROTO_IP, IP_MULTICAST_LOOP, 0}) == 1);
    }
    char room[64];
    CHECK(recv(udp, room, sizeof room, 0) == sizeof MESSAGE && strcmp(room, MESSAGE) == 0);
    puts("kept");
    return 0;
}
