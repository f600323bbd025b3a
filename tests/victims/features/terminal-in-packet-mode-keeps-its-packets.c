/* A master in packet mode is told what is data and what has been done to the slave; news that it has not read are waited
 * for.
 *
 * expect: survive
 */
#include "terminal.h"

int main(void)
{
    int master, slave, on = 1, is_on = 0;
    open_terminal(&master, &slave, 0);
    CHECK(ioctl(master, TIOCPKT, &on) == 0);
    for (int round = 0; round < 2; round++) {
        char got[16];
        say(slave, "data");
        moment("a packet");
        CHECK(ioctl(master, TIOCGPKT, &is_on) == 0 && is_on == 1);
        CHECK(read(master, got, sizeof got) == 5 && memcmp(got, "\0data", 5) == 0);
        CHECK(tcflush(slave, TCOFLUSH) == 0);
        CHECK(read(master, got, sizeof got) == 1 && got[0] == TIOCPKT_FLUSHWRITE);
        hear_nothing(master);
    }
    puts("packets kept");
    return 0;
}
