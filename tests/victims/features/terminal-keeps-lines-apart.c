/* Lines that have been typed are read one at a time, the ends of file among them where they were; one that is not ended
 * can be ended later, and corrected; all is echoed once.
 *
 * expect: survive
 */
#include "terminal.h"

int main(void)
{
    int master, slave;
    open_terminal(&master, &slave, 1);
    for (int round = 0; round < 2; round++) {
        say(master, "one\rtwo\x16\x04\x16\r!\rab\x04\x04" "and anothxx");
        hear(slave, "one\n");
        moment("typed");
        hear(slave, "two\x04\r!\n");
        hear(slave, "ab");
        char none;
        CHECK(read(slave, &none, 1) == 0);
        hear_nothing(slave);
        hear_all(master, "one\r\ntwo^\b^D^\b^M!\r\naband anothxx");
        moment("not ended");
        say(master, "\x7f\x7f" "er\r");
        hear(slave, "and another\n");
        hear_all(master, "\b \b\b \ber\r\n");
        moment("nothing");
        hear_nothing(slave);
        hear_nothing(master);
    }
    puts("lines kept");
    return 0;
}
