/* Threads that wait in read and write of a socket pair go on with every byte.
 *
 * expect: survive
 * flags: -pthread
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <pthread.h>
#include <sys/syscall.h>

enum { TOTAL = 3000000 };
static int pair[2];
static volatile int reading;
static volatile pid_t writer_id, reader_id;

static void *write_all(void *unused)
{
    uint64_t seed = 3;
    unsigned char room[777];
    writer_id = gettid();
    for (long done = 0; done < TOTAL;) {
        for (size_t i = 0; i < sizeof room; i++)
            room[i] = (unsigned char)next_number(&seed);
        for (size_t at = 0; at < sizeof room;) {
            ssize_t bytes = write(pair[0], room + at, sizeof room - at);
            CHECK(bytes > 0);
            at += (size_t)bytes;
        }
        done += (long)sizeof room;
    }
    CHECK(shutdown(pair[0], SHUT_WR) == 0);
    return unused;
}

static void *read_all(void *sum)
{
    unsigned char room[1000];
    ssize_t bytes;
    uint64_t seed = 3;
    long count = 0;
    reader_id = gettid();
    await(&reading);
    while ((bytes = read(pair[1], room, sizeof room)) > 0)
        for (ssize_t i = 0; i < bytes; i++, count++)
            CHECK(room[i] == (unsigned char)next_number(&seed));
    CHECK(bytes == 0 && count >= TOTAL);
    return sum;
}

int main(void)
{
    pthread_t writer, reader;
    char byte;
    int idle[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, idle) == 0);
    CHECK(pthread_create(&reader, NULL, read_all, NULL) == 0 && pthread_create(&writer, NULL, write_all, NULL) == 0);
    while (writer_id == 0)
        usleep(200);
    await_call(writer_id, SYS_write);
    moment("writer waits");
    reading = 1;
    CHECK(pthread_join(writer, NULL) == 0 && pthread_join(reader, NULL) == 0);
    CHECK(write(idle[0], "x", 1) == 1 && read(idle[1], &byte, 1) == 1);
    puts("every byte");
    return 0;
}
