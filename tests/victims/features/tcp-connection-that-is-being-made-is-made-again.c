/* A TCP connection that has not been answered yet is made again: a program that waits for it gets it, or its refusal.
 *
 * expect: survive
 * flags: -pthread
 * replaces: nothing, since a connection that is being made was refused before
 */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static struct sockaddr_in busy = {.sin_family = AF_INET};
static socklen_t length = sizeof busy;
static int blocking;
static volatile pid_t caller;

static int new_socket(void)
{
    int made = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(made >= 0);
    return made;
}

/* Lets one connection wait at a socket, which then answers no other. Returns that one, and the listening socket. */
static int fill(int *server)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int first = new_socket();
    *server = new_socket();
    CHECK(bind(*server, (struct sockaddr *)&at, sizeof at) == 0 && listen(*server, 0) == 0);
    CHECK(getsockname(*server, (struct sockaddr *)&busy, &length) == 0);
    CHECK(connect(first, (struct sockaddr *)&busy, length) == 0);
    return first;
}

static int begin(int is_bound)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int made = new_socket();
    CHECK(fcntl(made, F_SETFL, O_NONBLOCK) == 0);
    if (is_bound)
        CHECK(bind(made, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(connect(made, (struct sockaddr *)&busy, length) == -1 && errno == EINPROGRESS);
    return made;
}

static void *wait_for_it(void *unused)
{
    caller = gettid();
    CHECK(connect(blocking, (struct sockaddr *)&busy, length) == 0);
    return unused;
}

static int await_end(int client)
{
    struct pollfd wanted = {.fd = client, .events = POLLOUT};
    int error;
    socklen_t word = sizeof error;
    CHECK(poll(&wanted, 1, -1) == 1 && getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &word) == 0);
    return error;
}

static struct sockaddr_in name_of(int client)
{
    struct sockaddr_in name;
    socklen_t bytes = sizeof name;
    CHECK(getsockname(client, (struct sockaddr *)&name, &bytes) == 0);
    return name;
}

int main(void)
{
    int server, first = fill(&server), unbound = begin(0), bound = begin(1), sum = 0;
    struct sockaddr_in peer, names[2] = {name_of(unbound), name_of(bound)};
    struct pollfd wanted[2] = {{.fd = unbound, .events = POLLOUT}, {.fd = bound, .events = POLLOUT}};
    pthread_t thread;
    blocking = new_socket();
    CHECK(pthread_create(&thread, NULL, wait_for_it, NULL) == 0);
    while (caller == 0)
        usleep(200);
    await_call(caller, SYS_connect);
    moment("three are being made");
    CHECK(poll(wanted, 2, 0) == 0 && connect(bound, (struct sockaddr *)&busy, length) == -1 && errno == EALREADY);
    CHECK(getpeername(unbound, (struct sockaddr *)&peer, &length) == -1 && errno == ENOTCONN);
    struct sockaddr_in now[2] = {name_of(unbound), name_of(bound)};
    CHECK(memcmp(names, now, sizeof now) == 0 && listen(server, 8) == 0);
    CHECK(write(first, "\1", 1) == 1 && await_end(unbound) == 0 && await_end(bound) == 0);
    CHECK(connect(bound, (struct sockaddr *)&busy, length) == 0);
    CHECK(connect(bound, (struct sockaddr *)&busy, length) == -1 && errno == EISCONN);
    CHECK(pthread_join(thread, NULL) == 0 && write(unbound, "\2", 1) == 1 && write(bound, "\4", 1) == 1);
    CHECK(write(blocking, "\10", 1) == 1);
    for (int count = 0; count < 4; count++) {
        char byte;
        int accepted = accept(server, NULL, NULL);
        CHECK(accepted >= 0 && read(accepted, &byte, 1) == 1 && close(accepted) == 0);
        sum += byte;
    }
    CHECK(sum == 15 && close(server) == 0 && close(first) == 0);
    first = fill(&server);
    unbound = begin(0);
    moment("one is being made that will be refused");
    CHECK(close(server) == 0 && await_end(unbound) == ECONNREFUSED);
    puts("made, and refused");
    return 0;
}
