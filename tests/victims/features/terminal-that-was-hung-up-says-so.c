/* The slave of a pseudo-terminal whose master is closed has come to its end; and a master whose slave is closed is told so,
 * behind what was written before, until somebody opens it again.
 *
 * expect: survive
 */
#include "terminal.h"

int main(void)
{
    int master, slave, other_master, other;
    struct termios settings;
    char name[64], byte;
    open_terminal(&other_master, &other, 0);
    strcpy(name, ptsname(other_master));
    open_terminal(&master, &slave, 1);
    say(master, "lost");
    CHECK(close(master) == 0);
    say(other, "last words");
    say(other_master, "for later");
    CHECK(close(other) == 0);
    for (int round = 0; round < 2; round++) {
        moment("hung up");
        CHECK(read(slave, &byte, 1) == 0);
        CHECK(write(slave, "x", 1) == -1 && errno == EIO);
        CHECK(tcgetattr(slave, &settings) == -1 && errno == EIO);
        struct pollfd both[2] = {{slave, POLLIN, 0}, {other_master, POLLOUT, 0}};
        CHECK(poll(both, 2, 0) == 2 && both[0].revents & POLLHUP && both[1].revents & POLLHUP);
        if (round == 0)
            hear(other_master, "last words");
        CHECK(read(other_master, &byte, 1) == -1 && errno == EIO);
    }
    other = open(name, O_RDWR | O_NOCTTY);
    CHECK(other >= 0);
    hear(other, "for later");
    say(other, "here again");
    hear(other_master, "here again");
    puts("told");
    return 0;
}
