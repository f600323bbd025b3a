/* A message queue of POSIX is refused by name.
 *
 * expect: refuse "message queue"
 */
#include "check.h"
#include <fcntl.h>
#include <mqueue.h>

int main(void)
{
    char name[64], room[8192];
    snprintf(name, sizeof name, "/standfast-victim-%d", getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    if (queue == (mqd_t)-1)
        LACKS("message queues of POSIX");
    CHECK(mq_unlink(name) == 0 && mq_send(queue, "kept", 4, 1) == 0);
    moment("queue");
    CHECK(mq_receive(queue, room, sizeof room, NULL) == 4 && mq_close(queue) == 0);
    puts("received");
    return 0;
}
