/* A message queue of POSIX whose next message is to be announced by a signal is refused by name for as long as that is so.
 *
 * expect: refuse "message" "mq_notify"
 */
#include "check.h"
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>

int main(void)
{
    char name[64], room[8192];
    snprintf(name, sizeof name, "/standfast-victim-%d", getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    if (queue == (mqd_t)-1)
        LACKS("message queues of POSIX");
    struct sigevent signal_me = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR && mq_unlink(name) == 0 && mq_notify(queue, &signal_me) == 0);
    moment("announced");
    CHECK(mq_send(queue, "kept", 4, 1) == 0);
    CHECK(mq_receive(queue, room, sizeof room, NULL) == 4 && mq_close(queue) == 0);
    puts("received");
    return 0;
}
