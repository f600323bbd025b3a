/* A pseudo-terminal whose slave is closed and may not be opened again is refused by name: what is in flight there cannot
 * be seen.
 *
 * expect: refuse "TIOCEXCL"
 * needs: user
 * doctor-blind: to see it, the slave would have to be opened, which its master notices
 */
#include "terminal.h"

int main(void)
{
    int master, slave;
    open_terminal(&master, &slave, 0);
    CHECK(ioctl(slave, TIOCEXCL) == 0 && close(slave) == 0);
    moment("closed");
    CHECK(open(ptsname(master), O_RDWR | O_NOCTTY) == -1 && errno == EBUSY);
    puts("closed for good");
    return 0;
}
