/* Sockets between processes, each of which holds one end only, keep what is in flight both ways: Unix pairs, packets, TCP.
 *
 * expect: survive
 * needs: namespaces
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { KINDS = 3, ROUNDS = 3, BYTES = 40000 };

static void connect_all(int ours[KINDS], int theirs[KINDS])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int pair[2], on = 1, server = socket(AF_INET, SOCK_STREAM, 0);
    for (int kind = 0; kind < 2; kind++) {
        CHECK(socketpair(AF_UNIX, kind == 0 ? SOCK_STREAM : SOCK_SEQPACKET, 0, pair) == 0);
        ours[kind] = pair[0];
        theirs[kind] = pair[1];
    }
    CHECK(server >= 0 && setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(bind(server, (struct sockaddr *)&at, sizeof at) == 0 && listen(server, 1) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&at, &length) == 0);
    CHECK((ours[2] = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && connect(ours[2], (struct sockaddr *)&at, length) == 0);
    CHECK((theirs[2] = accept(server, NULL, NULL)) >= 0 && close(server) == 0);
}

/* What one side sends in a round: the same to whoever knows who sends. */
static void send_all(const int ends[KINDS], int who, int round)
{
    static unsigned char bytes[BYTES];
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t seed = (uint64_t)(who * 1000 + round * 10 + kind);
        for (int i = 0; i < BYTES; i++)
            bytes[i] = (unsigned char)next_number(&seed);
        CHECK(send(ends[kind], bytes, BYTES, 0) == BYTES);
    }
}

static void take_all(const int ends[KINDS], int who, int round)
{
    static unsigned char bytes[BYTES + 1];
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t seed = (uint64_t)(who * 1000 + round * 10 + kind);
        ssize_t got = kind == 1 ? recv(ends[kind], bytes, sizeof bytes, 0) : recv(ends[kind], bytes, BYTES, MSG_WAITALL);
        CHECK(got == BYTES);
        for (int i = 0; i < BYTES; i++)
            CHECK(bytes[i] == (unsigned char)next_number(&seed));
    }
}

int main(void)
{
    int ours[KINDS], theirs[KINDS], status, said[2], heard[2];
    char word;
    connect_all(ours, theirs);
    CHECK(pipe(said) == 0 && pipe(heard) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int kind = 0; kind < KINDS; kind++)
            CHECK(close(ours[kind]) == 0);
        CHECK(close(said[1]) == 0 && close(heard[0]) == 0);
        for (int round = 0; read(said[0], &word, 1) == 1; round++) {
            send_all(theirs, 2, round);
            CHECK(write(heard[1], "x", 1) == 1 && read(said[0], &word, 1) == 1);
            take_all(theirs, 1, round);
            CHECK(write(heard[1], "x", 1) == 1);
        }
        /* The last words stay in flight after the end of the process. */
        CHECK(send(theirs[0], "gone", 4, 0) == 4 && send(theirs[2], "gone", 4, 0) == 4);
        _exit(3);
    }
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(close(theirs[kind]) == 0);
    CHECK(close(said[0]) == 0 && close(heard[1]) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(write(said[1], "x", 1) == 1 && read(heard[0], &word, 1) == 1);
        send_all(ours, 1, round);
        moment("in flight both ways");
        take_all(ours, 2, round);
        CHECK(write(said[1], "x", 1) == 1 && read(heard[0], &word, 1) == 1);
    }
    CHECK(close(said[1]) == 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    moment("the other side has ended");
    for (int kind = 0; kind < KINDS; kind += 2) {
        char last[8];
        CHECK(recv(ours[kind], last, 4, MSG_WAITALL) == 4 && memcmp(last, "gone", 4) == 0 && recv(ours[kind], last, 1, 0) == 0);
    }
    CHECK(recv(ours[1], &word, 1, 0) == 0);
    puts("between processes: every byte");
    return 0;
}
