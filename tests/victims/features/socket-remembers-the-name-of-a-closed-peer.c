/* A Unix socket knows the name of its peer when that has been closed, and that of the sender of what it has not read yet.
 *
 * expect: survive
 */
#include "check.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static socklen_t abstract(struct sockaddr_un *at, const char *name)
{
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "%s-%d", name, getpid());
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static socklen_t named(struct sockaddr_un *at, const char *path)
{
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    strcpy(at->sun_path, path);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
}

struct end {
    int descriptor;
    struct sockaddr_un peer;
    socklen_t length;
};

static void expect(const struct end *end)
{
    struct sockaddr_un now = {0};
    socklen_t length = sizeof now;
    CHECK(getpeername(end->descriptor, (struct sockaddr *)&now, &length) == 0);
    CHECK(length == end->length && memcmp(&now, &end->peer, length) == 0);
}

static int listening(int type, const struct sockaddr_un *at, socklen_t length)
{
    int listener = socket(AF_UNIX, type, 0);
    CHECK(listener >= 0 && bind(listener, (const struct sockaddr *)at, length) == 0 && listen(listener, 5) == 0);
    return listener;
}

static int connected(int type, const struct sockaddr_un *at, socklen_t length)
{
    int made = socket(AF_UNIX, type, 0);
    CHECK(made >= 0 && connect(made, (const struct sockaddr *)at, length) == 0);
    return made;
}

int main(void)
{
    struct end ends[8];
    struct sockaddr_un own, from;
    char room[16];
    socklen_t own_length, from_length = sizeof from;
    int count = 0, pair[2];
    for (int is_path = 0; is_path < 2; is_path++) {
        int type = is_path ? SOCK_SEQPACKET : SOCK_STREAM;
        struct end *client = &ends[count++], *server = &ends[count++], *datagrams = &ends[count++];
        client->length = is_path ? named(&client->peer, "closed-server") : abstract(&client->peer, "server");
        int listener = listening(type, &client->peer, client->length);
        client->descriptor = connected(type, &client->peer, client->length);
        int accepted = accept(listener, NULL, NULL);
        CHECK(accepted >= 0 && send(accepted, "hello", 5, 0) == 5 && close(accepted) == 0);
        int bound = socket(AF_UNIX, type, 0);
        server->length = is_path ? named(&server->peer, "closed-client") : abstract(&server->peer, "client");
        CHECK(bind(bound, (struct sockaddr *)&server->peer, server->length) == 0);
        CHECK(connect(bound, (struct sockaddr *)&client->peer, client->length) == 0);
        CHECK((server->descriptor = accept(listener, NULL, NULL)) >= 0 && close(bound) == 0);
        if (is_path)
            CHECK(close(listener) == 0 && unlink("closed-server") == 0 && unlink("closed-client") == 0);
        datagrams->length = is_path ? named(&datagrams->peer, "closed-sender") : abstract(&datagrams->peer, "sender");
        CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
        CHECK(bind(pair[1], (struct sockaddr *)&datagrams->peer, datagrams->length) == 0);
        CHECK(send(pair[1], "message", 7, 0) == 7 && close(pair[1]) == 0);
        datagrams->descriptor = pair[0];
    }
    struct end *nameless = &ends[count++];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && close(pair[1]) == 0);
    *nameless = (struct end){.descriptor = pair[0], .peer.sun_family = AF_UNIX, .length = sizeof(sa_family_t)};
    for (int life = 0; life < 3; life++) {
        for (int each = 0; each < count; each++)
            expect(&ends[each]);
        if (life < 2)
            moment("closed");
    }
    CHECK(recv(ends[0].descriptor, room, sizeof room, 0) == 5 && recv(ends[3].descriptor, room, sizeof room, 0) == 5);
    for (int which = 2; which < 6; which += 3) {
        CHECK(recvfrom(ends[which].descriptor, room, sizeof room, 0, (struct sockaddr *)&from, &from_length) == 7);
        CHECK(from_length == ends[which].length && memcmp(&from, &ends[which].peer, from_length) == 0);
        from_length = sizeof from;
    }
    /* The server that is left can still be reached, and the names of those that are gone are free. */
    own_length = ends[0].length;
    CHECK(close(connected(SOCK_STREAM, &ends[0].peer, own_length)) == 0);
    own_length = abstract(&own, "client");
    CHECK((pair[0] = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0 && bind(pair[0], (struct sockaddr *)&own, own_length) == 0);
    CHECK(access("closed-server", F_OK) == -1 && access("closed-client", F_OK) == -1);
    puts("remembered");
    return 0;
}
