/* The node of a terminal that is made after a restart has the same permissions as before, for those who may write to it.
 *
 * expect: survive
 */
#include "terminal.h"

/* The permissions of a new terminal. */
static mode_t mode_of_new(void)
{
    int master, slave;
    struct stat now;
    open_terminal(&master, &slave, 1);
    CHECK(fstat(slave, &now) == 0 && close(master) == 0 && close(slave) == 0);
    return now.st_mode;
}

int main(void)
{
    int master, slave;
    open_terminal(&master, &slave, 1);
    mode_t usual = mode_of_new();
    moment("made");
    CHECK(mode_of_new() == usual);
    puts("as usual");
    return 0;
}
