/* Messages with credentials of more bytes than can be sent again as the program itself are refused as long as they wait.
 *
 * expect: refuse "credentials"
 * doctor-blind: what is in flight is looked at only while the program is stopped
 */
#include "check.h"
#include <sys/socket.h>

enum { BYTES = 48 << 10 };

int main(void)
{
    static char text[BYTES];
    int pair[2], on = 1, more = 1 << 20;
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    CHECK(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &more, sizeof more) == 0);
    CHECK(write(pair[0], text, BYTES) == BYTES);
    moment("waits");
    CHECK(read(pair[1], text, BYTES) == BYTES);
    puts("read");
    return 0;
}
