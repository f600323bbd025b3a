/* Readers that wait at the two sides of a pseudo-terminal wait on, and get what comes.
 *
 * expect: survive
 */
#include "terminal.h"

static pid_t reader(int from, int close_too, const char *text)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (close_too >= 0)
            CHECK(close(close_too) == 0);
        hear(from, text);
        _exit(0);
    }
    await_call_of(child, SYS_read);
    return child;
}

int main(void)
{
    for (int lines = 0; lines < 2; lines++) {
        int master, slave;
        open_terminal(&master, &slave, lines);
        pid_t at_slave = reader(slave, master, "typed\n"), at_master = reader(master, -1, "shown");
        moment("waiting");
        await_state(at_slave, 'S');
        await_state(at_master, 'S');
        say(slave, "shown");
        reap(at_master, 0);
        say(master, "typed\n");
        reap(at_slave, 0);
        CHECK(close(master) == 0 && close(slave) == 0);
    }
    puts("waited on");
    return 0;
}
