/* Channels within the process: pipes with unread bytes, eventfds of both sorts, epoll in all its modes, descriptors that
 * share an offset, descriptors with gaps and flags, device nodes. Tokens travel a ring of threads all the while. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

enum { STATIONS = 5, TOKENS = 3, STORED = 40000, FAR = 200, LARGE_FILE = 0100000 };

static int ring[STATIONS][2];
static int doorbell, tickets;
static long laps;

struct token {
    uint64_t sum;
    long hops;
    char padding[500];
};

static void read_all(int fd, void *to, size_t length)
{
    for (size_t got = 0; got < length;) {
        ssize_t n = read(fd, (char *)to + got, length - got);
        CHECK(n > 0);
        got += (size_t)n;
    }
}

static void *station(void *argument)
{
    long number = (long)argument;
    for (long i = 0; i < laps * TOKENS; i++) {
        struct token token;
        read_all(ring[number][0], &token, sizeof token);
        CHECK(token.hops % STATIONS == number && token.padding[499] == 'x');
        token.sum = fold(token.sum, &number, sizeof number);
        token.hops++;
        CHECK(write(ring[(number + 1) % STATIONS][1], &token, sizeof token) == sizeof token);
        uint64_t one = 1;
        CHECK(write(doorbell, &one, sizeof one) == sizeof one);
    }
    return NULL;
}

/* Hears the doorbell through epoll and counts; no ring may be lost or doubled. */
static void *listener(void *expected)
{
    int instance = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0xfeedfacecafebeef};
    CHECK(instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, doorbell, &event) == 0);
    for (uint64_t heard = 0, wanted = *(uint64_t *)expected; heard < wanted;) {
        CHECK(epoll_wait(instance, &event, 1, -1) == 1);
        CHECK(event.data.u64 == 0xfeedfacecafebeef && event.events == EPOLLIN);
        uint64_t rings;
        CHECK(read(doorbell, &rings, sizeof rings) == sizeof rings);
        heard += rings;
        CHECK(heard <= wanted);
    }
    CHECK(close(instance) == 0);
    return NULL;
}

struct stock {
    int stored[2], narrow[2];
    int edge, shot, level;
    int shared, shared_too, far, appended, zero, null;
    unsigned char bytes[STORED];
};

/* Things that lie still through the whole run, in states that take some care to rebuild. */
static void lay_out(struct stock *s)
{
    uint64_t random = 3;
    for (int i = 0; i < STORED; i++)
        s->bytes[i] = (unsigned char)next_number(&random);
    CHECK(pipe2(s->stored, O_NONBLOCK | O_CLOEXEC) == 0);
    CHECK(write(s->stored[1], s->bytes, STORED) == STORED);
    CHECK(pipe(s->narrow) == 0 && fcntl(s->narrow[1], F_SETPIPE_SZ, 4096) == 4096);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = 1};
    s->edge = epoll_create1(EPOLL_CLOEXEC);
    s->shot = epoll_create1(0);
    s->level = epoll_create1(0);
    CHECK(epoll_ctl(s->edge, EPOLL_CTL_ADD, s->narrow[0], &event) == 0);
    event.events = EPOLLIN | EPOLLONESHOT, event.data.u32 = 2;
    CHECK(epoll_ctl(s->shot, EPOLL_CTL_ADD, s->stored[0], &event) == 0);
    CHECK(epoll_wait(s->shot, &event, 1, 0) == 1 && event.data.u32 == 2);
    event.events = EPOLLIN | EPOLLRDHUP, event.data.u32 = 3;
    CHECK(epoll_ctl(s->level, EPOLL_CTL_ADD, s->stored[0], &event) == 0);
    s->shared = open("shared.bin", O_RDWR | O_CREAT | O_TRUNC, 0640);
    s->shared_too = dup(s->shared);
    CHECK(s->shared >= 0 && s->shared_too >= 0 && dup2(s->shared, FAR) == FAR);
    s->far = FAR;
    CHECK(fcntl(s->far, F_SETFD, FD_CLOEXEC) == 0);
    s->appended = open("appended.log", O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0600);
    s->zero = open("/dev/zero", O_RDONLY);
    s->null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(s->appended >= 0 && s->zero >= 0 && s->null >= 0);
}

static void check_still(struct stock *s)
{
    struct epoll_event event;
    CHECK(epoll_wait(s->shot, &event, 1, 0) == 0);
    CHECK(epoll_wait(s->level, &event, 1, 0) == 1 && event.data.u32 == 3 && event.events == EPOLLIN);
    /* A pipe that was opened again by name shows O_LARGEFILE, which means nothing on a 64-bit machine. */
    CHECK((fcntl(s->stored[0], F_GETFL) & ~LARGE_FILE) == O_NONBLOCK && fcntl(s->stored[0], F_GETFD) == FD_CLOEXEC);
    CHECK((fcntl(s->narrow[1], F_GETFL) & O_ACCMODE) == O_WRONLY && fcntl(s->narrow[1], F_GETFD) == 0);
    CHECK(fcntl(s->narrow[0], F_GETPIPE_SZ) == 4096);
    CHECK(fcntl(s->far, F_GETFD) == FD_CLOEXEC && fcntl(s->shared, F_GETFD) == 0);
    CHECK(fcntl(s->edge, F_GETFD) == FD_CLOEXEC && fcntl(s->shot, F_GETFD) == 0);
    CHECK((fcntl(s->appended, F_GETFL) & (O_APPEND | O_ACCMODE)) == (O_APPEND | O_WRONLY));
    CHECK(fcntl(FAR - 1, F_GETFD) == -1 && errno == EBADF);
    char eight[8] = "garbage";
    CHECK(read(s->zero, eight, 8) == 8 && memcmp(eight, "\0\0\0\0\0\0\0\0", 8) == 0);
    CHECK(write(s->null, eight, 8) == 8);
    CHECK(umask(027) == 027);
}

/* Takes some bytes out of the stored pipe at its head and puts them back at its tail. */
static uint64_t turn_stored(struct stock *s, uint64_t sum, long lap)
{
    unsigned char some[777];
    CHECK(read(s->stored[0], some, sizeof some) == sizeof some);
    for (size_t i = 0; i < sizeof some; i++)
        CHECK(some[i] == s->bytes[((size_t)lap * sizeof some + i) % STORED]);
    CHECK(write(s->stored[1], some, sizeof some) == sizeof some);
    return fold(sum, some, sizeof some);
}

static void use_shared_offset(struct stock *s, long lap)
{
    char line[32];
    int length = snprintf(line, sizeof line, "lap %06ld\n", lap);
    off_t at = lseek(s->shared, 0, SEEK_CUR);
    CHECK(at == lap * length);
    CHECK(write(lap % 2 ? s->shared_too : s->far, line, (size_t)length) == length);
    CHECK(lseek(s->shared, 0, SEEK_CUR) == at + length);
    CHECK(write(s->appended, line, (size_t)length) == length);
}

static void use_edge_and_tickets(struct stock *s)
{
    struct epoll_event event;
    uint64_t count = 3;
    char byte = 'e';
    CHECK(write(s->narrow[1], &byte, 1) == 1);
    CHECK(epoll_wait(s->edge, &event, 1, -1) == 1 && event.data.u32 == 1);
    CHECK(read(s->narrow[0], &byte, 1) == 1 && byte == 'e');
    CHECK(write(tickets, &count, sizeof count) == sizeof count);
    for (int i = 0; i < 3; i++)
        CHECK(read(tickets, &count, sizeof count) == sizeof count && count == 1);
    CHECK(read(tickets, &count, sizeof count) == sizeof count && count == 1);
    CHECK(write(tickets, &count, sizeof count) == sizeof count);
}

int main(int argc, char **argv)
{
    static struct stock stock;
    pthread_t stations[STATIONS], listening;
    laps = amount(argc, argv, 24000);
    umask(027);
    lay_out(&stock);
    doorbell = eventfd(0, 0);
    tickets = eventfd(1, EFD_SEMAPHORE | EFD_CLOEXEC);
    uint64_t rings = (uint64_t)laps * TOKENS * STATIONS;
    CHECK(doorbell >= 0 && tickets >= 0);
    for (int i = 0; i < STATIONS; i++)
        CHECK(pipe(ring[i]) == 0);
    struct token token = {.sum = FOLD_START};
    memset(token.padding, 'x', sizeof token.padding);
    for (int i = 0; i < TOKENS; i++)
        CHECK(write(ring[0][1], &token, sizeof token) == sizeof token);
    CHECK(pthread_create(&listening, NULL, listener, &rings) == 0);
    for (long i = 0; i < STATIONS; i++)
        CHECK(pthread_create(&stations[i], NULL, station, (void *)i) == 0);
    uint64_t sum = FOLD_START;
    for (long lap = 0; lap < laps; lap++) {
        check_still(&stock);
        sum = turn_stored(&stock, sum, lap);
        use_shared_offset(&stock, lap);
        use_edge_and_tickets(&stock);
    }
    for (int i = 0; i < STATIONS; i++)
        CHECK(pthread_join(stations[i], NULL) == 0);
    CHECK(pthread_join(listening, NULL) == 0);
    for (int i = 0; i < TOKENS; i++) {
        read_all(ring[0][0], &token, sizeof token);
        CHECK(token.hops == laps * STATIONS);
        sum = fold(sum, &token.sum, sizeof token.sum);
    }
    printf("channels: sum %016lx\n", (unsigned long)sum);
    return 0;
}
