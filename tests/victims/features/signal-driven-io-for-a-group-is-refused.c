/* Signal-driven I/O that tells a process group is refused by name.
 *
 * expect: refuse "signal"
 */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

int main(void)
{
    int pair[2];
    /* It leads one already where it is run under protection; others are not to be told. */
    CHECK(setpgid(0, 0) == 0);
    CHECK(signal(SIGIO, SIG_IGN) != SIG_ERR && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(fcntl(pair[0], F_SETOWN, -getpgrp()) == 0 && fcntl(pair[0], F_SETFL, O_ASYNC) == 0);
    moment("armed");
    CHECK(fcntl(pair[0], F_GETOWN) == -getpgrp());
    puts("still armed");
    return 0;
}
