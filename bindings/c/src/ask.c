/* Asks the supervisor for a checkpoint: with one line over the control socket in the job's directory, and one line of
 * answer. The connection is closed before the program is stopped. The supervisor writes the outcome into the header while
 * the program is frozen, and at a restart before the program continues. A thread that waits for the outcome therefore
 * finds a changed value when it repeats the interrupted wait. */
#include "internal.h"
#include <string.h>

#define FUTEX_WAIT_PRIVATE 128
#define O_PATH_DIRECTORY_CLOEXEC (010000000l | 0200000l | 02000000l)
#define SOCK_STREAM_CLOEXEC (1l | 02000000l)
#define AF_UNIX 1
#define POLLIN 1
#define MSG_NOSIGNAL 0x4000l
#define EINTR_NUMBER 4
#define EAGAIN_NUMBER 11

/* The time to wait for an outcome before asking the supervisor again, which shows whether it is still alive. */
#define OUTCOME_SECONDS 2
/* The time to wait for a line from the supervisor. */
#define ANSWER_MILLISECONDS 10000
#define ANSWER_BYTES 512
/* The number of retries, and the pause before each, if the supervisor does not listen. */
#define REFUSALS_MAX 20
#define MOMENT_NANOSECONDS 10000000l

struct address {
    unsigned short family;
    char path[108];
};

enum answer { NOTED, NOT_DUE, DECLINED, NOBODY };

/* Appends a number to `text`, in decimal digits. */
static void put_number(char *text, unsigned long number)
{
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    text += strlen(text);
    while (count > 0)
        *text++ = digits[--count];
    *text = 0;
}

static int connect_to(const char *directory)
{
    /* A socket address has room for 108 bytes, and a directory's path may be longer. */
    long place = call(SYS_open, (long)directory, O_PATH_DIRECTORY_CLOEXEC, 0, 0, 0, 0);
    if (has_failed(place))
        return -1;
    struct address address = {AF_UNIX, "/proc/self/fd/"};
    put_number(address.path, (unsigned long)place);
    strcat(address.path, "/control");
    long connection = call(SYS_socket, AF_UNIX, SOCK_STREAM_CLOEXEC, 0, 0, 0, 0);
    if (!has_failed(connection)) {
        long done;
        do
            done = call(SYS_connect, connection, (long)&address, sizeof address, 0, 0, 0);
        while (done == -EINTR_NUMBER);
        if (has_failed(done)) {
            call(SYS_close, connection, 0, 0, 0, 0, 0);
            connection = -1;
        }
    }
    call(SYS_close, place, 0, 0, 0, 0, 0);
    return has_failed(connection) ? -1 : (int)connection;
}

static enum answer converse(int connection, const char *request, uint64_t *nanoseconds)
{
    size_t length = strlen(request);
    if (call(SYS_sendto, connection, (long)request, (long)length, MSG_NOSIGNAL, 0, 0) != (long)length)
        return NOBODY;
    char line[ANSWER_BYTES];
    size_t got = 0;
    for (;;) {
        struct { int connection; short events, found; } wait = {connection, POLLIN, 0};
        long ready = call(SYS_poll, (long)&wait, 1, ANSWER_MILLISECONDS, 0, 0, 0);
        if (ready == -EINTR_NUMBER)
            continue;
        if (ready <= 0)
            return NOBODY;
        long more = call(SYS_read, connection, (long)(line + got), (long)(sizeof line - 1 - got), 0, 0, 0);
        if (more == -EINTR_NUMBER)
            continue;
        if (has_failed(more))
            return NOBODY;
        got += (size_t)more;
        if (more == 0 || got == sizeof line - 1)
            break;
    }
    line[got] = 0;
    if (strstr(line, "\"noted\""))
        return NOTED;
    const char *wait = strstr(line, "\"nanoseconds\":");
    if (wait == NULL)
        return got == 0 ? NOBODY : DECLINED;
    *nanoseconds = 0;
    for (wait += strlen("\"nanoseconds\":"); *wait >= '0' && *wait <= '9'; wait++)
        *nanoseconds = *nanoseconds * 10 + (uint64_t)(*wait - '0');
    return NOT_DUE;
}

/* Sends one line to the supervisor and reads the answer. Meanwhile the supervisor takes no checkpoint, since the
 * connection leads out of the job. */
static enum answer say(struct header *header, const char *request, uint64_t *nanoseconds)
{
    own.asking++;
    atomic_fetch_add(&header->asking, 1);
    enum answer answer = NOBODY;
    int connection = connect_to(header->directory);
    if (connection >= 0) {
        answer = converse(connection, request, nanoseconds);
        call(SYS_close, connection, 0, 0, 0, 0, 0);
    }
    atomic_fetch_sub(&header->asking, 1);
    own.asking--;
    return answer;
}

static int ask(struct header *header, uint64_t *generation)
{
    uint32_t before = atomic_load(&header->sequence);
    uint64_t nanoseconds = 0;
    int refusals = 0;
    const char *request = "{\"version\":1,\"request\":\"here\",\"again\":false}\n";
    while (atomic_load(&header->sequence) == before) {
        switch (say(header, request, &nanoseconds)) {
        case NOT_DUE: {
            uint64_t present = exact_now();
            bool is_never = nanoseconds > ~0ull - present;
            uint64_t none = 0;
            /* Unless a checkpoint has set another value meanwhile. */
            atomic_compare_exchange_strong(&header->due_at, &none, is_never ? ~0ull : present + nanoseconds);
            return STANDFAST_NOT_TAKEN;
        }
        case DECLINED:
            return STANDFAST_ERROR_FAILED;
        case NOBODY: {
            /* A restarted program may run before its supervisor listens. The supervisor will listen in a moment. */
            struct { long seconds, nanoseconds; } moment = {0, MOMENT_NANOSECONDS};
            if (++refusals > REFUSALS_MAX)
                return STANDFAST_ERROR_UNPROTECTED;
            call(SYS_nanosleep, (long)&moment, 0, 0, 0, 0, 0);
            continue;
        }
        case NOTED:
            break;
        }
        request = "{\"version\":1,\"request\":\"here\",\"again\":true}\n";
        long waited;
        do {
            struct { long seconds, nanoseconds; } limit = {OUTCOME_SECONDS, 0};
            waited = call(SYS_futex, (long)&header->sequence, FUTEX_WAIT_PRIVATE, before, (long)&limit, 0, 0);
        } while (waited == -EINTR_NUMBER && atomic_load(&header->sequence) == before);
    }
    int outcome = atomic_load(&header->outcome);
    if (outcome > 0 && generation != NULL)
        *generation = atomic_load(&header->generation);
    return outcome;
}

int standfast_ask(struct header *header, uint64_t *generation)
{
    own.waiting++;
    atomic_fetch_add(&header->flags, ONE_WAITING);
    int outcome = ask(header, generation);
    atomic_fetch_sub(&header->flags, ONE_WAITING);
    own.waiting--;
    return outcome;
}

void standfast_tell_enabled(struct header *header)
{
    uint64_t nanoseconds;
    /* A supervisor that misses this looks again by itself. */
    (void)say(header, "{\"version\":1,\"request\":\"enabled\"}\n", &nanoseconds);
}
