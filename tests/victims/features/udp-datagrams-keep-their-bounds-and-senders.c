/* UDP sockets keep ports, whom they are connected to, options, and datagrams in flight with bounds and senders.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static struct sockaddr_in bound(int *made)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    CHECK((*made = socket(AF_INET, SOCK_DGRAM, 0)) >= 0 && bind(*made, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(*made, (struct sockaddr *)&at, &length) == 0);
    return at;
}

static void expect(int from, const char *wanted, uint16_t port)
{
    struct sockaddr_in sender;
    socklen_t length = sizeof sender;
    char room[64] = {0};
    CHECK(recvfrom(from, room, sizeof room, MSG_DONTWAIT, (struct sockaddr *)&sender, &length) == (ssize_t)strlen(wanted));
    CHECK(strcmp(room, wanted) == 0 && sender.sin_port == port && sender.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
}

int main(void)
{
    int one, two, three, fresh, value, seconds = 0;
    socklen_t word = sizeof value;
    struct timeval limit = {.tv_sec = 77}, now;
    socklen_t time_length = sizeof now;
    struct sockaddr_in at_one = bound(&one), at_two = bound(&two), at_three = bound(&three);
    CHECK((fresh = socket(AF_INET, SOCK_DGRAM, 0)) >= 0);
    CHECK(connect(three, (struct sockaddr *)&at_one, sizeof at_one) == 0);
    CHECK(setsockopt(two, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    value = 1;
    CHECK(setsockopt(two, SOL_SOCKET, SO_BROADCAST, &value, sizeof value) == 0);
    value = 20000;
    CHECK(setsockopt(two, SOL_SOCKET, SO_RCVBUF, &value, sizeof value) == 0);
    CHECK(sendto(two, "from two", 8, 0, (struct sockaddr *)&at_one, sizeof at_one) == 8);
    CHECK(send(three, "from three", 10, 0) == 10 && send(three, "once more", 9, 0) == 9);
    CHECK(sendto(one, "to three", 8, 0, (struct sockaddr *)&at_three, sizeof at_three) == 8);
    moment("in flight");
    expect(one, "from two", at_two.sin_port);
    moment("one was taken");
    expect(one, "from three", at_three.sin_port);
    expect(one, "once more", at_three.sin_port);
    expect(three, "to three", at_one.sin_port);
    CHECK(recv(one, &value, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    CHECK(getsockopt(two, SOL_SOCKET, SO_RCVTIMEO, &now, &time_length) == 0 && now.tv_sec == 77);
    CHECK(getsockopt(two, SOL_SOCKET, SO_RCVBUF, &value, &word) == 0 && value == 40000);
    CHECK(getsockopt(two, SOL_SOCKET, SO_BROADCAST, &value, &word) == 0 && value == 1);
    CHECK(getsockopt(one, SOL_SOCKET, SO_BROADCAST, &value, &word) == 0 && value == 0 && seconds == 0);
    CHECK(sendto(fresh, "fresh", 5, 0, (struct sockaddr *)&at_two, sizeof at_two) == 5);
    CHECK(recv(two, &at_one, sizeof at_one, 0) == 5);
    puts("bounds and senders");
    return 0;
}
