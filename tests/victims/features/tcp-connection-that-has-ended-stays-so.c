/* A TCP connection that both sides have ended, and one of which the other side is closed, stay so where the program has not
 * closed them: what had come can be read, then there is the end, and nothing can be sent.
 *
 * expect: survive
 */
#include "check.h"
#include <arpa/inet.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* As many as the first window holds (64 KiB): the end comes behind them. */
enum { BYTES = 50000 };

static void make_pair(int pair[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(pair[0] >= 0 && connect(pair[0], (struct sockaddr *)&at, sizeof at) == 0);
    pair[1] = accept(listener, NULL, NULL);
    CHECK(pair[1] >= 0 && close(listener) == 0);
}

/* Until both sides have said that they are through. */
static void await_end(int end)
{
    struct pollfd poller = {.fd = end};
    CHECK(poll(&poller, 1, -1) == 1 && poller.revents == POLLHUP);
}

static void expect_end(int end)
{
    char byte;
    struct pollfd poller = {.fd = end, .events = POLLIN | POLLOUT | POLLRDHUP};
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    int error = -1;
    CHECK(poll(&poller, 1, 0) == 1 && poller.revents == (POLLIN | POLLOUT | POLLRDHUP | POLLHUP));
    CHECK(read(end, &byte, 1) == 0);
    CHECK(send(end, "!", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    CHECK(getpeername(end, (struct sockaddr *)&peer, &length) == -1 && errno == ENOTCONN);
    length = sizeof error;
    CHECK(getsockopt(end, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
}

int main(void)
{
    static char sent[BYTES], received[BYTES];
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
    int pair[2], one = 1;
    socklen_t length = sizeof one;
    uint64_t state = 1;
    for (int i = 0; i < BYTES; i++)
        sent[i] = (char)next_number(&state);
    make_pair(pair);
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0);
    /* What waits to be read when the connection ends can be read afterwards. */
    CHECK(write(pair[1], sent, BYTES) == BYTES);
    CHECK(shutdown(pair[1], SHUT_WR) == 0 && shutdown(pair[0], SHUT_WR) == 0);
    await_end(pair[0]);
    await_end(pair[1]);
    int instance = epoll_create1(EPOLL_CLOEXEC);
    CHECK(instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, pair[0], &event) == 0);
    moment("ended");
    CHECK(epoll_wait(instance, &event, 1, 0) == 1 && event.data.u32 == 7 && event.events == (EPOLLIN | EPOLLHUP));
    CHECK(recv(pair[0], received, BYTES, MSG_WAITALL) == BYTES && memcmp(sent, received, BYTES) == 0);
    expect_end(pair[0]);
    expect_end(pair[1]);
    CHECK(close(pair[1]) == 0);
    moment("read to its end, the other side closed");
    expect_end(pair[0]);
    one = 0;
    CHECK(getsockopt(pair[0], SOL_SOCKET, SO_KEEPALIVE, &one, &length) == 0 && one == 1);
    CHECK(connect(pair[0], &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr)) == 0);
    moment("dissolved");
    CHECK(close(pair[0]) == 0 && close(instance) == 0);
    puts("ended");
    return 0;
}
