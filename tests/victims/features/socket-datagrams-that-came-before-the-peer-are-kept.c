/* A Unix datagram socket that is connected keeps the datagrams that others had sent to it before that, with their senders.
 * Afterwards only its peer reaches it. Sockets that are connected in a row are so again, whichever was made first.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

static const char *const NAMES[] = {"@one", "@two", "@three", "@four"};

static socklen_t address(struct sockaddr_un *at, const char *name)
{
    at->sun_family = AF_UNIX;
    int length = snprintf(at->sun_path, sizeof at->sun_path, "%s-%d", name, getpid());
    at->sun_path[0] = '\0';
    return (socklen_t)(sizeof(sa_family_t) + (size_t)length);
}

static int bound(int which)
{
    struct sockaddr_un at;
    socklen_t length = address(&at, NAMES[which]);
    int made = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(made >= 0 && bind(made, (struct sockaddr *)&at, length) == 0);
    return made;
}

static void join(int from, int to)
{
    struct sockaddr_un at;
    socklen_t length = address(&at, NAMES[to]);
    CHECK(connect(from, (struct sockaddr *)&at, length) == 0);
}

static ssize_t send_to(int from, int to, const char *text)
{
    struct sockaddr_un at;
    socklen_t length = address(&at, NAMES[to]);
    return sendto(from, text, strlen(text), MSG_DONTWAIT, (struct sockaddr *)&at, length);
}

static void expect(int from, const char *wanted, int sender)
{
    struct sockaddr_un at, found;
    socklen_t length = address(&at, NAMES[sender]), found_length = sizeof found;
    char room[64] = {0};
    ssize_t bytes = (ssize_t)strlen(wanted);
    CHECK(recvfrom(from, room, sizeof room, MSG_DONTWAIT, (struct sockaddr *)&found, &found_length) == bytes);
    CHECK(strcmp(room, wanted) == 0 && found_length == length && memcmp(&at, &found, length) == 0);
}

int main(void)
{
    struct sockaddr_un at;
    socklen_t length = sizeof at;
    int sockets[4];
    for (int each = 0; each < 4; each++)
        sockets[each] = bound(each);
    CHECK(send_to(sockets[3], 1, "from four") == 9);
    CHECK(send_to(sockets[0], 1, "from one") == 8);
    /* Three sends to two, and two to one: the other order is not allowed. */
    join(sockets[2], 1);
    join(sockets[1], 0);
    CHECK(send_to(sockets[0], 1, "from one again") == 14);
    join(sockets[0], 1);
    moment("connected");
    expect(sockets[1], "from four", 3);
    moment("one was taken");
    expect(sockets[1], "from one", 0);
    expect(sockets[1], "from one again", 0);
    CHECK(send_to(sockets[3], 1, "too late") == -1 && errno == EPERM);
    CHECK(send(sockets[2], "too late", 8, 0) == -1 && errno == EPERM);
    CHECK(getpeername(sockets[2], (struct sockaddr *)&at, &length) == 0);
    CHECK(send(sockets[0], "in time", 7, 0) == 7);
    expect(sockets[1], "in time", 0);
    CHECK(send(sockets[1], "back", 4, 0) == 4);
    expect(sockets[0], "back", 1);
    puts("kept");
    return 0;
}
