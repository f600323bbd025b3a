/* A datagram of no bytes that has not been read is refused by name, again and again, since the kernel shows it
 * once only.
 *
 * expect: refuse "message of no bytes"
 * doctor-blind: what is in flight is not looked at while the program runs
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

int main(void)
{
    int pair[2];
    char room[8];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    CHECK(send(pair[0], "one", 3, 0) == 3 && send(pair[0], "", 0, 0) == 0 && send(pair[0], "two", 3, 0) == 3);
    moment("behind another");
    moment("seen already");
    CHECK(recv(pair[1], room, 8, 0) == 3 && recv(pair[1], room, 8, 0) == 0 && recv(pair[1], room, 8, 0) == 3);
    puts("read");
    return 0;
}
