/* A master in packet mode that has not been told yet what was done to the slave delays the checkpoint: the news can be told
 * once only.
 *
 * expect: refuse "ptmx" "unread packets"
 * doctor-blind: whether there are news is looked at when all stand still
 */
#include "terminal.h"

int main(void)
{
    int master, slave, on = 1;
    char got;
    open_terminal(&master, &slave, 0);
    CHECK(ioctl(master, TIOCPKT, &on) == 0 && tcflush(slave, TCOFLUSH) == 0);
    moment("news");
    CHECK(read(master, &got, 1) == 1 && got == TIOCPKT_FLUSHWRITE);
    puts("told");
    return 0;
}
