/* A terminal with much in flight, whose writer a signal is to tell of room (O_ASYNC), delays the checkpoint: that takes out what
 * is in flight, which makes room, and the kernel would tell of it at once, and not again.
 *
 * expect: refuse "ptmx" "when more can be written"
 * doctor-blind: what is in flight is looked at when all stand still
 * rest: few programs have a signal tell them of a terminal
 */
#include "terminal.h"
#include <fcntl.h>
#include <signal.h>

static volatile int told;

static void tell(int number)
{
    (void)number;
    told++;
}

int main(void)
{
    int master, slave;
    char got[4096], much[256] = {0};
    struct sigaction action = {.sa_handler = tell, .sa_flags = SA_RESTART};
    open_terminal(&master, &slave, 0);
    CHECK(sigaction(SIGIO, &action, NULL) == 0 && fcntl(master, F_SETOWN, getpid()) == 0);
    CHECK(fcntl(master, F_SETFL, fcntl(master, F_GETFL) | O_NONBLOCK | O_ASYNC) == 0);
    /* The last write is a partial one, or none. */
    while (write(master, much, sizeof much) == sizeof much)
        ;
    moment("full");
    CHECK(told == 0 && fcntl(slave, F_SETFL, O_NONBLOCK) == 0);
    while (told == 0)
        CHECK(read(slave, got, sizeof got) > 0 || errno == EAGAIN);
    puts("told");
    return 0;
}
