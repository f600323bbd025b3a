/* One end of a TCP connection over which the ends send streams of known bytes, and read them slowly, so that the queues are
 * full most of the time. It ends with 0 if everything arrives in order. When it is connected, it makes FILE-WITH-PORT.serve or
 * FILE-WITH-PORT.call.
 *
 * usage: talk serve|call ADDRESS FILE-WITH-PORT QUEUE-BYTES MEBIBYTES-TO-SEND MEBIBYTES-TO-RECEIVE
 * 0 leaves the size of the receive queue to the kernel. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 64 << 10, READ_AT_ONCE = 40 << 10, PAUSE_MICROSECONDS = 300 };

#define CHECK(it) do { if (!(it)) { perror(#it); exit(1); } } while (0)

static unsigned char byte_at(unsigned long place)
{
    return (unsigned char)((place * 2654435761u) >> 13 ^ place >> 16);
}

static int connected(const char *how, const char *address, const char *place, int queue)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(address)};
    socklen_t length = sizeof at;
    int made = socket(AF_INET, SOCK_STREAM, 0), port;
    CHECK(made >= 0);
    CHECK(!queue || setsockopt(made, SOL_SOCKET, SO_RCVBUF, &queue, sizeof queue) == 0);
    CHECK(bind(made, (struct sockaddr *)&at, length) == 0);
    if (strcmp(how, "serve") == 0) {
        char temporary[4096];
        CHECK(listen(made, 1) == 0);
        CHECK(getsockname(made, (struct sockaddr *)&at, &length) == 0);
        snprintf(temporary, sizeof temporary, "%s.new", place);
        FILE *file = fopen(temporary, "w");
        CHECK(file && fprintf(file, "%d\n", ntohs(at.sin_port)) > 0 && fclose(file) == 0);
        CHECK(rename(temporary, place) == 0);
        return accept(made, NULL, NULL);
    }
    FILE *file;
    while (!(file = fopen(place, "r")))
        usleep(1000);
    CHECK(fscanf(file, "%d", &port) == 1);
    fclose(file);
    at.sin_port = htons((unsigned short)port);
    CHECK(connect(made, (struct sockaddr *)&at, length) == 0);
    return made;
}

int main(int count, char **words)
{
    static unsigned char out[PIECE], in[READ_AT_ONCE];
    CHECK(count == 7);
    unsigned long to_send = strtoul(words[5], NULL, 10) << 20, sent = 0;
    unsigned long to_receive = strtoul(words[6], NULL, 10) << 20, received = 0;
    int end = connected(words[1], words[2], words[3], atoi(words[4]));
    CHECK(end >= 0 && fcntl(end, F_SETFL, O_NONBLOCK) == 0);
    snprintf((char *)out, sizeof out, "%s.%s", words[3], words[1]);
    CHECK(mknod((char *)out, S_IFREG | 0600, 0) == 0);
    while (sent < to_send || received < to_receive) {
        struct pollfd poller = {end, (sent < to_send ? POLLOUT : 0) | (received < to_receive ? POLLIN : 0), 0};
        CHECK(poll(&poller, 1, -1) == 1);
        if (poller.revents & POLLOUT) {
            unsigned long length = to_send - sent < PIECE ? to_send - sent : PIECE;
            for (unsigned long at = 0; at < length; at++)
                out[at] = byte_at(sent + at);
            ssize_t written = write(end, out, length);
            // After a restart less may fit into the send queue.
            CHECK(written > 0 || errno == EAGAIN);
            sent += written > 0 ? (unsigned long)written : 0;
        }
        if (poller.revents & POLLIN) {
            ssize_t got = read(end, in, sizeof in);
            CHECK(got > 0);
            for (ssize_t at = 0; at < got; at++)
                if (in[at] != byte_at(received + (unsigned long)at)) {
                    fprintf(stderr, "byte %lu is wrong\n", received + (unsigned long)at);
                    return 2;
                }
            received += (unsigned long)got;
            usleep(PAUSE_MICROSECONDS);
        }
    }
    return 0;
}
