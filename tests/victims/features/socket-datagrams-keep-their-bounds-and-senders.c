/* Datagrams and packets between Unix sockets keep their bounds, their order and the addresses of their senders.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un named(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    return address;
}

static void expect(int from, const char *wanted, const char *sender)
{
    struct sockaddr_un address = {0};
    socklen_t length = sizeof address;
    char room[64] = {0};
    ssize_t bytes = recvfrom(from, room, sizeof room, MSG_DONTWAIT, (struct sockaddr *)&address, &length);
    CHECK(bytes == (ssize_t)strlen(wanted) && strcmp(room, wanted) == 0);
    CHECK(sender == NULL ? length <= sizeof(sa_family_t) : strcmp(address.sun_path, sender) == 0);
}

int main(void)
{
    struct sockaddr_un box = named("box"), one = named("one");
    int pair[2], packets[2], receiver, sender, mute, connected;
    char room[8];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets) == 0);
    CHECK((receiver = socket(AF_UNIX, SOCK_DGRAM, 0)) >= 0 && bind(receiver, (struct sockaddr *)&box, sizeof box) == 0);
    CHECK((sender = socket(AF_UNIX, SOCK_DGRAM, 0)) >= 0 && bind(sender, (struct sockaddr *)&one, sizeof one) == 0);
    CHECK((mute = socket(AF_UNIX, SOCK_DGRAM, 0)) >= 0 && (connected = socket(AF_UNIX, SOCK_DGRAM, 0)) >= 0);
    CHECK(connect(connected, (struct sockaddr *)&box, sizeof box) == 0 && chmod("box", 0620) == 0);
    CHECK(send(pair[0], "first", 5, 0) == 5 && send(pair[0], "second one", 10, 0) == 10);
    CHECK(send(packets[1], "ab", 2, 0) == 2 && send(packets[1], "cde", 3, 0) == 3 && send(packets[1], "f", 1, 0) == 1);
    CHECK(sendto(sender, "from one", 8, 0, (struct sockaddr *)&box, sizeof box) == 8);
    CHECK(sendto(mute, "from nobody", 11, 0, (struct sockaddr *)&box, sizeof box) == 11 && close(mute) == 0);
    CHECK(send(connected, "connected", 9, 0) == 9);
    moment("in flight");
    expect(pair[1], "first", NULL);
    CHECK(recv(packets[0], room, 1, 0) == 1 && room[0] == 'a');
    expect(receiver, "from one", "one");
    moment("one each was taken");
    expect(pair[1], "second one", NULL);
    expect(packets[0], "cde", NULL);
    expect(packets[0], "f", NULL);
    expect(receiver, "from nobody", NULL);
    expect(receiver, "connected", NULL);
    CHECK(recv(receiver, room, 8, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    CHECK(sendto(receiver, "answer", 6, 0, (struct sockaddr *)&one, sizeof one) == 6);
    expect(sender, "answer", "box");
    CHECK(send(connected, "again", 5, 0) == 5);
    expect(receiver, "again", NULL);
    struct stat file;
    CHECK(stat("box", &file) == 0 && S_ISSOCK(file.st_mode) && (file.st_mode & 0777) == 0620);
    CHECK(close(packets[1]) == 0);
    moment("peer gone");
    CHECK(recv(packets[0], room, 8, 0) == 0);
    CHECK(unlink("box") == 0 && unlink("one") == 0);
    puts("bounds and senders");
    return 0;
}
