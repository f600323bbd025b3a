/* A System V message queue keeps its id, key, limit and messages, with their types and in their order; who waits for a message or
 * for room goes on waiting.
 *
 * expect: survive
 */
#include "family.h"
#include <sys/msg.h>

struct message {
    long type;
    char text[256];
};

static void say(int queue, long type, int length, char letter)
{
    struct message message = {.type = type};
    memset(message.text, letter, length);
    CHECK(msgsnd(queue, &message, length, 0) == 0);
}

/* Receives a message of this type, which must have this length and letter. */
static void hear(int queue, long wanted, long type, int length, char letter)
{
    struct message message;
    CHECK(msgrcv(queue, &message, sizeof message.text, wanted, IPC_NOWAIT) == length && message.type == type);
    CHECK(length == 0 || (message.text[0] == letter && message.text[length - 1] == letter));
}

int main(void)
{
    key_t key = 0x5e000000 + getpid();
    int queue = msgget(key, IPC_CREAT | IPC_EXCL | 0600), narrow = msgget(IPC_PRIVATE, 0600);
    if (queue < 0 && errno == ENOSYS)
        LACKS("message queues of System V");
    struct msqid_ds status;
    CHECK(queue >= 0 && narrow >= 0 && msgctl(narrow, IPC_STAT, &status) == 0);
    status.msg_qbytes = 300;
    CHECK(msgctl(narrow, IPC_SET, &status) == 0);
    say(narrow, 1, 200, 'n');
    say(queue, 7, 100, 'a');
    say(queue, 3, 0, 0);
    say(queue, 7, 256, 'b');
    say(queue, 1L << 40, 1, 'c');
    pid_t reader = fork();
    if (reader == 0) {
        struct message message;
        CHECK(msgrcv(queue, &message, sizeof message.text, 99, 0) == 2 && message.text[1] == 'x');
        _exit(1);
    }
    pid_t writer = fork();
    if (writer == 0) {
        say(narrow, 2, 150, 'w');
        _exit(2);
    }
    await_call_of(reader, SYS_msgrcv);
    await_call_of(writer, SYS_msgsnd);
    for (int life = 0; life < 2; life++) {
        moment("waiting");
        CHECK(msgget(key, 0) == queue && msgctl(queue, IPC_STAT, &status) == 0);
        CHECK(status.msg_qnum == 4 && (status.msg_perm.mode & 0777) == 0600);
        CHECK(msgctl(narrow, IPC_STAT, &status) == 0 && status.msg_qbytes == 300 && status.msg_qnum == 1);
        await_call_of(reader, SYS_msgrcv);
        await_call_of(writer, SYS_msgsnd);
    }
    say(queue, 99, 2, 'x');
    reap(reader, 1);
    hear(queue, 0, 7, 100, 'a');
    hear(queue, 7, 7, 256, 'b');
    moment("half received");
    hear(queue, 0, 3, 0, 0);
    hear(queue, 0, 1L << 40, 1, 'c');
    hear(narrow, 0, 1, 200, 'n');
    reap(writer, 2);
    hear(narrow, 0, 2, 150, 'w');
    CHECK(msgctl(queue, IPC_RMID, NULL) == 0 && msgctl(narrow, IPC_RMID, NULL) == 0);
    puts("received");
    return 0;
}
