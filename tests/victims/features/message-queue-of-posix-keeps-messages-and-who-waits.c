/* A message queue of POSIX keeps its name, limits, permissions, flags and messages, with their priorities and in their
 * order; who waits for a message or for room goes on waiting. One whose name has been taken away has none.
 *
 * expect: survive
 */
#include "family.h"
#include <mqueue.h>

enum { TEXT = 300 };

static void say(mqd_t queue, unsigned priority, const char *text)
{
    CHECK(mq_send(queue, text, strlen(text), priority) == 0);
}

static void hear(mqd_t queue, unsigned priority, const char *text)
{
    char room[TEXT];
    unsigned found;
    CHECK(mq_receive(queue, room, sizeof room, &found) == (ssize_t)strlen(text) && found == priority);
    CHECK(memcmp(room, text, strlen(text)) == 0);
}

int main(void)
{
    char name[64], other[80];
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = TEXT}, now;
    snprintf(name, sizeof name, "/standfast-victim-%d", getpid());
    snprintf(other, sizeof other, "%s-gone", name);
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0640, &attributes);
    if (queue == (mqd_t)-1)
        LACKS("message queues of POSIX");
    mqd_t gone = mq_open(other, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    mqd_t writer = mq_open(name, O_WRONLY | O_NONBLOCK), shared = dup(queue);
    CHECK(gone != (mqd_t)-1 && writer != (mqd_t)-1 && shared >= 0 && mq_unlink(other) == 0);
    CHECK(fchmod(queue, 04640) == 0);
    say(writer, 1, "low");
    say(writer, 5, "first");
    say(writer, 5, "");
    say(writer, 0, "last");
    CHECK(mq_send(writer, "x", 1, 9) == -1 && errno == EAGAIN);
    pid_t reader = fork();
    if (reader == 0) {
        hear(gone, 2, "at last");
        _exit(1);
    }
    pid_t sender = fork();
    if (sender == 0) {
        say(queue, 5, "late");
        _exit(2);
    }
    await_call_of(reader, SYS_mq_timedreceive);
    await_call_of(sender, SYS_mq_timedsend);
    int flags = fcntl(queue, F_GETFL), writers = fcntl(writer, F_GETFL);
    for (int life = 0; life < 2; life++) {
        moment("waiting");
        CHECK(fcntl(queue, F_GETFL) == flags && fcntl(writer, F_GETFL) == writers);
        struct stat status;
        CHECK(mq_getattr(queue, &now) == 0 && now.mq_curmsgs == 4 && now.mq_maxmsg == 4 && now.mq_msgsize == TEXT);
        CHECK(mq_getattr(writer, &now) == 0 && now.mq_flags == O_NONBLOCK && fstat(queue, &status) == 0);
        CHECK((status.st_mode & 07777) == 04640);
        CHECK(mq_send(writer, "x", 1, 9) == -1 && errno == EAGAIN);
        mqd_t again = mq_open(name, O_RDONLY);
        CHECK(again != (mqd_t)-1 && mq_getattr(again, &now) == 0 && now.mq_curmsgs == 4 && mq_close(again) == 0);
        CHECK(mq_open(other, O_RDWR) == (mqd_t)-1 && errno == ENOENT);
        await_call_of(reader, SYS_mq_timedreceive);
        await_call_of(sender, SYS_mq_timedsend);
    }
    hear(queue, 5, "first");
    reap(sender, 2);
    hear(shared, 5, "");
    moment("half received");
    hear(queue, 5, "late");
    hear(queue, 1, "low");
    hear(queue, 0, "last");
    say(gone, 2, "at last");
    reap(reader, 1);
    CHECK(mq_unlink(name) == 0 && mq_open(name, O_RDWR) == (mqd_t)-1 && errno == ENOENT);
    puts("received");
    return 0;
}
