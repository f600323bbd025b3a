/* A POSIX message queue that was unlinked while it was open, and two later ones of the same name, come back as three.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <mqueue.h>

enum { QUEUES = 3, BYTES = 16 };

int main(void)
{
    char name[64], text[BYTES];
    struct mq_attr limits = {.mq_maxmsg = 2, .mq_msgsize = BYTES};
    mqd_t queues[QUEUES];
    snprintf(name, sizeof name, "/standfast-names-%d", getpid());
    // The first one found is not that with the lowest descriptor.
    int low = open("/dev/null", O_RDONLY);
    for (int at = 0; at < QUEUES; at++) {
        CHECK((queues[at] = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0600, &limits)) >= 0);
        snprintf(text, sizeof text, "to queue %d", at);
        CHECK(mq_send(queues[at], text, strlen(text) + 1, 0) == 0);
        CHECK(at == QUEUES - 1 || mq_unlink(name) == 0);
    }
    // Descriptors are numbers.
    CHECK(dup2(queues[QUEUES - 1], low) == low && close(queues[QUEUES - 1]) == 0);
    queues[QUEUES - 1] = low;
    moment("named");
    for (int at = 0; at < QUEUES; at++) {
        char expected[BYTES];
        snprintf(expected, sizeof expected, "to queue %d", at);
        CHECK(mq_receive(queues[at], text, sizeof text, NULL) > 0 && strcmp(text, expected) == 0);
    }
    mqd_t again = mq_open(name, O_RDWR | O_NONBLOCK);
    CHECK(again >= 0 && mq_send(again, "more", 5, 0) == 0);
    CHECK(mq_receive(queues[QUEUES - 1], text, sizeof text, NULL) == 5 && mq_unlink(name) == 0);
    puts("three");
    return 0;
}
