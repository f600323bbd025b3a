/* Signal-driven I/O stays switched on for a socket, a pipe and a file that have no receiver of the signals.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/socket.h>

int main(void)
{
    int pair[2], ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(ends) == 0);
    int all[] = {pair[0], ends[0], ends[1]};
    for (int i = 0; i < 3; i++)
        CHECK(fcntl(all[i], F_SETFL, fcntl(all[i], F_GETFL) | O_ASYNC) == 0);
    moment("on");
    for (int i = 0; i < 3; i++)
        CHECK((fcntl(all[i], F_GETFL) & O_ASYNC) != 0 && fcntl(all[i], F_GETOWN) == 0);
    CHECK((fcntl(pair[1], F_GETFL) & O_ASYNC) == 0);
    puts("still on");
    return 0;
}
