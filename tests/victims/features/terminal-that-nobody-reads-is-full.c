/* Who writes into a terminal whose master nobody reads waits; all that the kernel held arrives, and what was to follow.
 *
 * expect: survive
 */
#include "terminal.h"

enum { BYTES = 200000 };

int main(void)
{
    int master, slave;
    uint64_t state = 1, expected = 1;
    open_terminal(&master, &slave, 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(master) == 0);
        for (int written = 0; written < BYTES;) {
            unsigned char piece[100];
            for (unsigned i = 0; i < sizeof piece; i++)
                piece[i] = (unsigned char)next_number(&state);
            /* A write that is interrupted tells how much it has written. */
            for (size_t done = 0; done < sizeof piece;) {
                ssize_t length = write(slave, piece + done, sizeof piece - done);
                CHECK(length > 0);
                done += length;
            }
            written += sizeof piece;
        }
        _exit(0);
    }
    await_call_of(child, SYS_write);
    moment("full");
    for (int read_all = 0; read_all < BYTES;) {
        unsigned char got[700];
        ssize_t length = read(master, got, sizeof got);
        CHECK(length > 0);
        for (ssize_t i = 0; i < length; i++)
            CHECK(got[i] == (unsigned char)next_number(&expected));
        if (read_all < BYTES / 2 && read_all + length >= BYTES / 2) {
            await_call_of(child, SYS_write);
            moment("full again");
        }
        read_all += length;
    }
    reap(child, 0);
    puts("all arrived");
    return 0;
}
