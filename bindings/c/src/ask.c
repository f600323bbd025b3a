/* How the supervisor is asked for a checkpoint: over the control socket in the job's directory, by one line and its answer.
 * The connection is closed before the program is stopped. The outcome is written into the header while the program stands
 * still, and at a restart before it goes on, so that whoever waits for it finds another value than before when the
 * interrupted wait is made again. */
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

/* An outcome is waited for so long before the supervisor is asked again, which tells whether it still lives. */
#define OUTCOME_SECONDS 2
/* So long for a line from it. */
#define ANSWER_MILLISECONDS 10000
#define ANSWER_BYTES 512
/* So often and so long a supervisor that does not listen is waited for. */
#define REFUSALS_MAX 20
#define MOMENT_NANOSECONDS 10000000l

struct address {
    unsigned short family;
    char path[108];
};

enum answer { NOTED, NOT_DUE, DECLINED, NOBODY };

/* Writes a number in decimal digits behind `text`. */
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
    /* An address has room for 108 bytes; directories have longer names. */
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

/* Says one line to the supervisor. While it does, the supervisor takes no checkpoint: the connection leads out of the job. */
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

int standfast_ask(struct header *header, uint64_t *generation)
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
            /* Unless a checkpoint has said otherwise meanwhile. */
            atomic_compare_exchange_strong(&header->due_at, &none, is_never ? ~0ull : present + nanoseconds);
            return STANDFAST_NOT_TAKEN;
        }
        case DECLINED:
            return STANDFAST_ERROR_FAILED;
        case NOBODY: {
            /* A restarted program may be ahead of its supervisor, which listens in a moment. */
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

void standfast_tell_enabled(struct header *header)
{
    uint64_t nanoseconds;
    /* Who does not hear it looks again by itself. */
    (void)say(header, "{\"version\":1,\"request\":\"enabled\"}\n", &nanoseconds);
}
