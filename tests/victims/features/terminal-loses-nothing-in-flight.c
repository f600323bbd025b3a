/* What has been typed and written in a raw pseudo-terminal, and not read, arrives once and in order, every byte of it.
 *
 * expect: survive
 */
#include "terminal.h"

/* The kernel may pass on a part of what has been written first. */
static void expect(int from, const char *bytes, size_t length)
{
    char got[4096];
    for (size_t heard = 0; heard < length;) {
        ssize_t more = read(from, got, length - heard);
        CHECK(more > 0 && memcmp(got, bytes + heard, more) == 0);
        heard += more;
    }
}

int main(void)
{
    int master, slave;
    char bytes[3000];
    open_terminal(&master, &slave, 0);
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i ^ i >> 8);
    for (int round = 1; round <= 3; round++) {
        size_t length = round == 1 ? 1 : round == 2 ? 256 : sizeof bytes;
        CHECK(write(master, bytes, length) == (ssize_t)length);
        CHECK(write(slave, bytes + 1, length - 1) == (ssize_t)length - 1);
        moment("in flight");
        expect(slave, bytes, length);
        expect(master, bytes + 1, length - 1);
        hear_nothing(slave);
        hear_nothing(master);
    }
    puts("nothing lost");
    return 0;
}
