/* A pseudo-terminal whose slave nobody has opened yet delays the checkpoint: what has been typed there cannot be seen.
 *
 * expect: refuse "ptmx" "other side has not been opened"
 */
#include "terminal.h"

int main(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0);
    say(master, "early\n");
    moment("locked");
    CHECK(grantpt(master) == 0 && unlockpt(master) == 0);
    moment("unlocked");
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    CHECK(slave >= 0);
    hear(slave, "early\n");
    puts("opened");
    return 0;
}
