/* A listening TCP socket keeps its port, its options and its backlog; a connection that waits to be accepted still
 * does, also where more wait than would be let in now.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static int listening_on(int family, struct sockaddr_storage *at, socklen_t *length)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    int made = socket(family, SOCK_STREAM, 0), on = 1;
    if (made < 0 && family == AF_INET6)
        return -1;
    CHECK(made >= 0 && setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    if (family == AF_INET)
        CHECK(bind(made, (struct sockaddr *)&four, sizeof four) == 0);
    else
        CHECK(bind(made, (struct sockaddr *)&six, sizeof six) == 0);
    CHECK(setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 && listen(made, 7) == 0);
    *length = sizeof *at;
    CHECK(getsockname(made, (struct sockaddr *)at, length) == 0);
    return made;
}

static void serve(int family)
{
    struct sockaddr_storage before, after;
    socklen_t length, length_after = sizeof after, word = sizeof(int);
    char room[8];
    int server = listening_on(family, &before, &length), value;
    if (server < 0)
        return;
    moment("listening");
    CHECK(getsockname(server, (struct sockaddr *)&after, &length_after) == 0);
    CHECK(length_after == length && memcmp(&before, &after, length) == 0);
    CHECK(getsockopt(server, IPPROTO_TCP, TCP_NODELAY, &value, &word) == 0 && value == 1);
    CHECK(getsockopt(server, SOL_SOCKET, SO_REUSEADDR, &value, &word) == 0 && value == 1);
    int client = socket(family, SOCK_STREAM, 0);
    CHECK(client >= 0 && connect(client, (struct sockaddr *)&before, length) == 0);
    int late = socket(family, SOCK_STREAM, 0);
    CHECK(late >= 0 && connect(late, (struct sockaddr *)&before, length) == 0 && listen(server, 0) == 0);
    moment("two wait, and a third would not be let in");
    CHECK(write(client, "hello", 5) == 5);
    int accepted = accept(server, NULL, NULL);
    CHECK(accepted >= 0 && read(accepted, room, sizeof room) == 5);
    CHECK(close(accepted) == 0 && close(client) == 0 && close(late) == 0 && close(server) == 0);
}

int main(void)
{
    serve(AF_INET);
    serve(AF_INET6);
    puts("served");
    return 0;
}
