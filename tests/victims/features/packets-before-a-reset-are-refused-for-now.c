/* A SOCK_SEQPACKET socket reports the reset of its connection before the messages that it holds, and to look at these would
 * take the report away. So a checkpoint is refused, by name, until the program has read it; nothing is lost.
 *
 * expect: refuse "error"
 */
#include "check.h"
#include <sys/socket.h>

int main(void)
{
    char room[8];
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    CHECK(send(pair[0], "unread", 6, 0) == 6 && send(pair[1], "answer", 6, 0) == 6 && close(pair[1]) == 0);
    moment("closed");
    CHECK(recv(pair[0], room, sizeof room, 0) == -1 && errno == ECONNRESET);
    CHECK(recv(pair[0], room, sizeof room, 0) == 6 && memcmp(room, "answer", 6) == 0);
    CHECK(recv(pair[0], room, sizeof room, 0) == 0);
    puts("read");
    return 0;
}
