/* A pseudo-terminal whose slave is closed and may not be opened again stays so, if root can look at what is in flight.
 *
 * expect: survive
 * needs: root
 */
#include "terminal.h"

int main(void)
{
    int master, slave, exclusive = 0;
    open_terminal(&master, &slave, 0);
    say(slave, "last");
    CHECK(ioctl(slave, TIOCEXCL) == 0 && close(slave) == 0);
    for (int round = 0; round < 2; round++)
        moment("closed");
    hear(master, "last");
    slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    // Without privileges over the machine, as after a restart in a user namespace, it cannot be opened.
    CHECK(slave >= 0 ? ioctl(slave, TIOCGEXCL, &exclusive) == 0 && exclusive == 1 : errno == EBUSY);
    puts("exclusive");
    return 0;
}
