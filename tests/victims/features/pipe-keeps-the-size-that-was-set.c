/* A pipe whose size the program has changed has that size again, with as much in it.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

enum { LARGE = 1 << 20, SMALL = 4096 };

int main(void)
{
    static char room[LARGE], back[LARGE];
    int large[2], small[2];
    uint64_t state = 5;
    CHECK(pipe2(large, O_NONBLOCK) == 0 && pipe2(small, O_NONBLOCK) == 0);
    CHECK(fcntl(large[1], F_SETPIPE_SZ, LARGE) == LARGE && fcntl(small[1], F_SETPIPE_SZ, SMALL) == SMALL);
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = (char)next_number(&state);
    CHECK(write(large[1], room, LARGE) == LARGE && write(small[1], room, SMALL) == SMALL);
    moment("full");
    CHECK(fcntl(large[0], F_GETPIPE_SZ) == LARGE && fcntl(small[0], F_GETPIPE_SZ) == SMALL);
    CHECK(write(large[1], "x", 1) == -1 && errno == EAGAIN && write(small[1], "x", 1) == -1 && errno == EAGAIN);
    for (ssize_t got = 0; got < LARGE;) {
        ssize_t n = read(large[0], back + got, LARGE - (size_t)got);
        CHECK(n > 0);
        got += n;
    }
    CHECK(memcmp(room, back, LARGE) == 0);
    CHECK(read(small[0], back, LARGE) == SMALL && memcmp(room, back, SMALL) == 0);
    puts("every byte was in its place");
    return 0;
}
