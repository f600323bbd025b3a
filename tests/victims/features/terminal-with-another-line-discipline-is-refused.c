/* A pseudo-terminal with a line discipline other than the usual one is refused by name.
 *
 * expect: refuse "line discipline"
 */
#include "terminal.h"

enum { USUAL = 0, NULL_DISCIPLINE = 27 };

int main(void)
{
    int master, slave, other = NULL_DISCIPLINE, usual = USUAL, now;
    open_terminal(&master, &slave, 1);
    if (ioctl(slave, TIOCSETD, &other) != 0)
        LACKS("the line discipline N_NULL");
    moment("other");
    CHECK(ioctl(slave, TIOCGETD, &now) == 0 && now == other);
    CHECK(ioctl(slave, TIOCSETD, &usual) == 0);
    puts("the usual one again");
    return 0;
}
