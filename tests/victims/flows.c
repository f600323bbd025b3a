/* Streams between two nodes in both directions, of which each byte is checked. Each node serves whoever connects, and sends back
 * what it gets; and it connects to the other one, sends, and compares what comes back. A connection ends after a random number
 * of bytes, and the next one is opened. When a file appears, each connection is finished, and the program ends.
 *
 * usage: flows PORT HOST FILE LONGEST PIECE ROOM
 * LONGEST: most bytes of a connection; PIECE: most bytes that are written at once; ROOM: SO_RCVBUF, or 0 for the usual one.
 * Prints how many connections it has opened. A wrong byte ends it with status 1. */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 64 << 10, BETWEEN_MICROSECONDS = 3000 };

#define CHECK(it) do { if (!(it)) { perror(#it); exit(1); } } while (0)

static const char *file;
static unsigned long longest, piece;
static int room;

/* Connections that are being served. */
static atomic_int served;

/* A connection, and how many bytes it is to carry; the far end has closed its direction when it has sent back all of them. */
struct flow {
    int end;
    unsigned long length;
};

static int is_over(void) { return access(file, F_OK) == 0; }

static unsigned long next_number(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned long)(*seed >> 33);
}

static unsigned char byte_at(unsigned long place)
{
    return (unsigned char)((place * 2654435761u) >> 13 ^ place >> 16);
}

static int new_socket(void)
{
    int on = 1, end = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(end >= 0 && setsockopt(end, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    if (room) CHECK(setsockopt(end, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0);
    return end;
}

static void write_all(int end, const unsigned char *from, size_t length)
{
    while (length > 0) {
        ssize_t written = write(end, from, length);
        CHECK(written > 0);
        from += written;
        length -= (size_t)written;
    }
}

/* Sends back what comes, until the other side has ended. */
static void *serve_one(void *given)
{
    int end = (int)(intptr_t)given;
    unsigned char buffer[BUFFER];
    for (ssize_t bytes; (bytes = read(end, buffer, sizeof buffer)) != 0;) {
        CHECK(bytes > 0);
        write_all(end, buffer, (size_t)bytes);
    }
    CHECK(close(end) == 0);
    atomic_fetch_sub(&served, 1);
    return NULL;
}

static void begin(void *(*what)(void *), void *given, pthread_t *thread)
{
    pthread_t own;
    CHECK(pthread_create(thread ? thread : &own, NULL, what, given) == 0);
    if (!thread) CHECK(pthread_detach(own) == 0);
}

static void *serve(void *given)
{
    int listener = (int)(intptr_t)given;
    for (;;) {
        int end = accept(listener, NULL, NULL);
        CHECK(end >= 0);
        atomic_fetch_add(&served, 1);
        begin(serve_one, (void *)(intptr_t)end, NULL);
    }
    return NULL;
}

/* Reads what comes back to the end, and checks each byte. */
static void *check(void *given)
{
    struct flow *flow = given;
    unsigned char buffer[BUFFER];
    unsigned long received = 0;
    for (ssize_t bytes; (bytes = read(flow->end, buffer, sizeof buffer)) != 0;) {
        CHECK(bytes > 0);
        for (ssize_t at = 0; at < bytes; at++, received++)
            if (buffer[at] != byte_at(received)) {
                fprintf(stderr, "byte %lu is wrong\n", received);
                exit(1);
            }
    }
    flow->length = received;
    return NULL;
}

static void call_once(const struct addrinfo *at, uint64_t *seed)
{
    struct flow flow = {.end = new_socket()};
    unsigned char buffer[BUFFER];
    unsigned long sent = 0, length = 1 + next_number(seed) % longest;
    pthread_t reader;
    /* The other node may not listen yet. */
    if (connect(flow.end, at->ai_addr, at->ai_addrlen) != 0) {
        CHECK(errno == ECONNREFUSED && close(flow.end) == 0);
        return;
    }
    begin(check, &flow, &reader);
    while (sent < length && !is_over()) {
        unsigned long bytes = 1 + next_number(seed) % piece;
        if (bytes > length - sent) bytes = length - sent;
        for (unsigned long byte = 0; byte < bytes; byte++) buffer[byte] = byte_at(sent + byte);
        write_all(flow.end, buffer, bytes);
        sent += bytes;
    }
    CHECK(shutdown(flow.end, SHUT_WR) == 0 && pthread_join(reader, NULL) == 0 && close(flow.end) == 0);
    if (flow.length != sent) {
        fprintf(stderr, "%lu bytes of %lu came back\n", flow.length, sent);
        exit(1);
    }
}

int main(int count, char **words)
{
    if (count != 7) {
        fprintf(stderr, "usage: flows PORT HOST FILE LONGEST PIECE ROOM\n");
        return 2;
    }
    file = words[3];
    longest = strtoul(words[4], NULL, 10);
    piece = strtoul(words[5], NULL, 10);
    room = atoi(words[6]);
    if (longest == 0 || piece == 0 || piece > BUFFER) return 2;
    struct addrinfo passive = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *own, *at;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    CHECK(getaddrinfo(NULL, words[1], &passive, &own) == 0 && getaddrinfo(words[2], words[1], &hints, &at) == 0);
    int listener = new_socket();
    CHECK(bind(listener, own->ai_addr, own->ai_addrlen) == 0 && listen(listener, 64) == 0);
    begin(serve, (void *)(intptr_t)listener, NULL);
    uint64_t seed = (uint64_t)getpid();
    unsigned long opened = 0;
    for (; !is_over(); opened++) {
        call_once(at, &seed);
        usleep(BETWEEN_MICROSECONDS);
    }
    printf("%lu connections\n", opened);
    CHECK(fflush(stdout) == 0);
    /* The other node may have connected just before it saw the file. */
    do sleep(1); while (atomic_load(&served) > 0);
    return 0;
}
