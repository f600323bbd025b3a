/* Two processes on two nodes, with connections of which one end has been closed. In one, the kernel still has much to send
 * that the process has left. Both look at what they have received only when a file says so.
 *
 * usage: closing serve PORT FILE
 *        closing call HOST PORT FILE
 * `serve` prints what it has received from a caller that is gone, and `call` what it has got from a server that has closed
 * the connection. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 64 << 10, FAREWELL = 100000 };

#define CHECK(it) do { if (!(it)) { perror(#it); exit(1); } } while (0)

static unsigned char byte_at(unsigned long place)
{
    return (unsigned char)((place * 2654435761u) >> 13 ^ place >> 16);
}

static void fill(unsigned char *piece, unsigned long from)
{
    for (unsigned long at = 0; at < PIECE; at++)
        piece[at] = byte_at(from + at);
}

/* Sends as much as the kernel takes at once, `most` at most, and closes the connection. */
static unsigned long leave(int end, unsigned long most)
{
    static unsigned char piece[PIECE];
    unsigned long sent = 0;
    while (sent < most) {
        fill(piece, sent);
        unsigned long rest = most - sent;
        ssize_t taken = send(end, piece, rest < PIECE ? rest : PIECE, MSG_DONTWAIT);
        if (taken <= 0)
            break;
        sent += (unsigned long)taken;
    }
    CHECK(close(end) == 0);
    return sent;
}

/* Reads to the end of the stream, and checks each byte. */
static unsigned long read_all(int end)
{
    static unsigned char piece[PIECE];
    unsigned long received = 0;
    for (ssize_t bytes; (bytes = read(end, piece, PIECE)) != 0;) {
        CHECK(bytes > 0);
        for (ssize_t at = 0; at < bytes; at++, received++)
            if (piece[at] != byte_at(received)) {
                printf("byte %lu is wrong\n", received);
                exit(1);
            }
    }
    return received;
}

static void await_file(const char *file)
{
    while (access(file, F_OK) != 0)
        usleep(5000);
}

static int serve(const char *port, const char *file)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *at;
    int on = 1;
    CHECK(getaddrinfo(NULL, port, &hints, &at) == 0);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(bind(listener, at->ai_addr, at->ai_addrlen) == 0 && listen(listener, 8) == 0);
    int from_gone = accept(listener, NULL, NULL), to_leave = accept(listener, NULL, NULL);
    CHECK(from_gone >= 0 && to_leave >= 0);
    CHECK(leave(to_leave, FAREWELL) == FAREWELL);
    puts("ready");
    fflush(stdout);
    await_file(file);
    printf("received %lu\n", read_all(from_gone));
    return 0;
}

static int connected(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *at;
    CHECK(getaddrinfo(host, port, &hints, &at) == 0);
    for (;;) {
        int end = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(end, at->ai_addr, at->ai_addrlen) == 0)
            return end;
        close(end);
        usleep(5000);
    }
}

static int call(const char *host, const char *port, const char *file)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        printf("left %lu\n", leave(connected(host, port), -1ul));
        fflush(stdout);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    int end = connected(host, port);
    await_file(file);
    printf("farewell %lu\n", read_all(end));
    return 0;
}

int main(int count, char **words)
{
    if (count == 4 && strcmp(words[1], "serve") == 0)
        return serve(words[2], words[3]);
    if (count == 5 && strcmp(words[1], "call") == 0)
        return call(words[2], words[3], words[4]);
    fprintf(stderr, "usage: closing serve PORT FILE | closing call HOST PORT FILE\n");
    return 2;
}
