/* A message queue of System V that the program uses is refused by name: it goes on in the kernel without it.
 *
 * expect: refuse "System V message queue"
 */
#include "check.h"
#include <sys/msg.h>

int main(void)
{
    struct {
        long kind;
        char text[8];
    } message = {1, "kept"};
    int made = msgget(IPC_PRIVATE, 0600);
    if (made < 0)
        LACKS("message queues of System V");
    CHECK(msgsnd(made, &message, sizeof message.text, 0) == 0);
    moment("sent");
    CHECK(msgrcv(made, &message, sizeof message.text, 1, 0) == sizeof message.text && msgctl(made, IPC_RMID, NULL) == 0);
    puts("received");
    return 0;
}
