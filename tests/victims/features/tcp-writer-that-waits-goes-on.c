/* A thread that waits in write, because neither queue of its TCP connection takes more, goes on with every byte.
 *
 * expect: survive
 * seldom: each checkpoint lets the writer send more, and the kernel has room for some of that only
 * flags: -pthread
 */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <pthread.h>
#include <sys/syscall.h>

enum { TOTAL = 40000000 };
static int ends[2];
static volatile int reading;
static volatile pid_t writer_id;

static void *write_all(void *unused)
{
    uint64_t seed = 3;
    static uint64_t room[1000];
    writer_id = gettid();
    for (long done = 0; done < TOTAL; done += (long)sizeof room) {
        for (size_t i = 0; i < sizeof room / 8; i++)
            room[i] = next_number(&seed);
        for (size_t at = 0; at < sizeof room;) {
            ssize_t bytes = write(ends[0], (char *)room + at, sizeof room - at);
            CHECK(bytes > 0);
            at += (size_t)bytes;
        }
    }
    CHECK(shutdown(ends[0], SHUT_WR) == 0);
    return unused;
}

static void *read_all(void *unused)
{
    uint64_t seed = 3;
    static uint64_t words[1000];
    long count = 0;
    await(&reading);
    while (recv(ends[1], words, sizeof words, MSG_WAITALL) == sizeof words) {
        for (size_t i = 0; i < sizeof words / 8; i++)
            CHECK(words[i] == next_number(&seed));
        count += (long)sizeof words;
    }
    CHECK(count >= TOTAL);
    return unused;
}

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    pthread_t writer, reader;
    long room = 0;
    FILE *limits = fopen("/proc/sys/net/ipv4/tcp_rmem", "r");
    CHECK(limits != NULL && fscanf(limits, "%*d %*d %ld", &room) == 1 && fclose(limits) == 0);
    if (room < 16 << 20)
        LACKS("a receive queue with room for what the sender has queued (net.ipv4.tcp_rmem)");
    int server = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(server >= 0 && setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0);
    CHECK(bind(server, (struct sockaddr *)&at, sizeof at) == 0 && listen(server, 5) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&at, &length) == 0 && (ends[0] = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    CHECK(connect(ends[0], (struct sockaddr *)&at, length) == 0 && (ends[1] = accept(server, NULL, NULL)) >= 0);
    CHECK(pthread_create(&reader, NULL, read_all, NULL) == 0 && pthread_create(&writer, NULL, write_all, NULL) == 0);
    while (writer_id == 0)
        usleep(200);
    await_call(writer_id, SYS_write);
    moment("writer waits");
    reading = 1;
    CHECK(pthread_join(writer, NULL) == 0 && pthread_join(reader, NULL) == 0);
    puts("every byte");
    return 0;
}
