/* A listening Unix socket, connections that it has accepted and such as wait to be, keep names, order and
 * contents.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

static int client(const struct sockaddr_un *address, socklen_t length)
{
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(made >= 0 && connect(made, (const struct sockaddr *)address, length) == 0);
    return made;
}

static void serve(const struct sockaddr_un *address, socklen_t length, const char *name)
{
    struct sockaddr_un told;
    socklen_t told_length = sizeof told;
    char room[32] = {0};
    int server = socket(AF_UNIX, SOCK_STREAM, 0), accepted, clients[3];
    CHECK(server >= 0 && bind(server, (const struct sockaddr *)address, length) == 0 && listen(server, 5) == 0);
    moment("listening");
    clients[0] = client(address, length);
    CHECK((accepted = accept(server, NULL, NULL)) >= 0);
    clients[1] = client(address, length);
    clients[2] = client(address, length);
    CHECK(shutdown(clients[2], SHUT_WR) == 0);
    CHECK(write(clients[0], "request", 7) == 7 && write(accepted, "response", 8) == 8);
    CHECK(listen(server, 0) == 0);
    moment("one accepted, two waiting, where the next would have to wait itself");
    CHECK(read(clients[0], room, sizeof room) == 8 && read(accepted, room, sizeof room) == 7);
    CHECK(getsockname(accepted, (struct sockaddr *)&told, &told_length) == 0);
    CHECK(told_length == length && memcmp(&told, address, length) == 0);
    told_length = sizeof told;
    CHECK(getpeername(clients[0], (struct sockaddr *)&told, &told_length) == 0 && told_length == length);
    CHECK(write(clients[1], "of the first", 12) == 12);
    int first = accept(server, NULL, NULL), second = accept(server, NULL, NULL);
    CHECK(first >= 0 && second >= 0 && read(first, room, sizeof room) == 12 && read(second, room, sizeof room) == 0);
    CHECK(listen(server, 5) == 0);
    int late = client(address, length), last = accept(server, NULL, NULL);
    CHECK(late >= 0 && last >= 0 && write(late, "x", 1) == 1 && read(last, room, 1) == 1);
    int all[] = {server, accepted, clients[0], clients[1], clients[2], first, second, late, last};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(close(all[i]) == 0);
    printf("served under %s\n", name);
}

int main(void)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "server"}, hidden = {.sun_family = AF_UNIX};
    int length = snprintf(hidden.sun_path + 1, sizeof hidden.sun_path - 1, "standfast victim %d", getpid());
    serve(&path, (socklen_t)(sizeof(sa_family_t) + strlen("server") + 1), "a path");
    CHECK(unlink("server") == 0);
    serve(&hidden, (socklen_t)(sizeof(sa_family_t) + 1 + (size_t)length), "an abstract name");
    return 0;
}
