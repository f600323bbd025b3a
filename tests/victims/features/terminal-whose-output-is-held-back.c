/* Output that a program or a key holds back is held back after a restart, and goes on when it is let go. So does the echo
 * of what is typed meanwhile.
 *
 * expect: survive
 */
#include "terminal.h"

int main(void)
{
    int master, slave;
    open_terminal(&master, &slave, 1);
    CHECK(fcntl(slave, F_SETFL, O_NONBLOCK) == 0);
    for (int by_key = 0; by_key < 2; by_key++) {
        struct pollfd out = {slave, POLLOUT, 0};
        say(slave, "before");
        if (by_key)
            say(master, "\x13");
        else
            CHECK(tcflow(slave, TCOOFF) == 0);
        say(master, "typed\twith \x01 control\nand more");
        hear_soon(slave, "typed\twith \x01 control\n");
        moment("held back");
        CHECK(poll(&out, 1, 0) == 0 && write(slave, "x", 1) == -1 && errno == EAGAIN);
        hear(master, "before");
        hear_nothing(master);
        if (by_key)
            say(master, "\x11");
        else
            CHECK(tcflow(slave, TCOON) == 0);
        CHECK(poll(&out, 1, -1) == 1);
        say(slave, "behind");
        hear_all(master, "typed\twith ^A control\r\nand morebehind");
        say(master, "\n");
        hear_soon(slave, "and more\n");
        hear_soon(master, "\r\n");
    }
    puts("held back");
    return 0;
}
