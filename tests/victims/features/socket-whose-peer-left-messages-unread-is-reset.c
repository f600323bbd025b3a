/* A Unix socket whose peer was closed with data unread reports once that the connection was reset, after all that it has
 * received itself. So it does after a restart, and a checkpoint does not take the report away.
 *
 * expect: survive
 */
#include "check.h"
#include <poll.h>
#include <sys/socket.h>

static void expect_reset(int end)
{
    struct pollfd polled = {.fd = end, .events = POLLIN};
    char byte;
    CHECK(poll(&polled, 1, 0) == 1 && polled.revents == (POLLIN | POLLERR | POLLHUP));
    CHECK(recv(end, &byte, 1, 0) == -1 && errno == ECONNRESET);
}

static void expect_end(int end)
{
    struct pollfd polled = {.fd = end, .events = POLLIN};
    char byte;
    CHECK(poll(&polled, 1, 0) == 1 && polled.revents == (POLLIN | POLLHUP));
    CHECK(recv(end, &byte, 1, 0) == 0);
    CHECK(send(end, "!", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
}

int main(void)
{
    char room[16] = {0};
    int stream[2], packets[2], quiet[2], error = 0;
    socklen_t length = sizeof error;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, quiet) == 0);
    CHECK(send(stream[0], "unread", 6, 0) == 6 && send(packets[0], "unread", 6, 0) == 6);
    CHECK(send(stream[1], "answer", 6, 0) == 6 && send(quiet[1], "one", 3, 0) == 3 && send(quiet[1], "two", 3, 0) == 3);
    CHECK(close(stream[1]) == 0 && close(packets[1]) == 0 && close(quiet[1]) == 0);
    moment("closed");
    CHECK(recv(stream[0], room, sizeof room, 0) == 6 && memcmp(room, "answer", 6) == 0);
    moment("what had come was read");
    expect_reset(stream[0]);
    CHECK(getsockopt(packets[0], SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == ECONNRESET);
    moment("the reset was reported");
    expect_end(stream[0]);
    expect_end(packets[0]);
    CHECK(recv(quiet[0], room, sizeof room, 0) == 3 && memcmp(room, "one", 3) == 0);
    CHECK(recv(quiet[0], room, sizeof room, 0) == 3 && memcmp(room, "two", 3) == 0);
    expect_end(quiet[0]);
    puts("reset");
    return 0;
}
