/* What lies in a pipe is read in order, its size is as it was set, and a closed end is still closed.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <signal.h>

int main(void)
{
    int ends[2], closed[2], unread[2];
    char bytes[100000], got[100000];
    uint64_t state = 4;
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)next_number(&state);
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    CHECK(pipe(ends) == 0 && pipe2(closed, O_NONBLOCK) == 0 && pipe(unread) == 0);
    CHECK(fcntl(ends[1], F_SETPIPE_SZ, 131072) == 131072);
    CHECK(write(ends[1], bytes, sizeof bytes) == sizeof bytes && read(ends[0], got, 10) == 10);
    CHECK(write(closed[1], "last words", 10) == 10 && close(closed[1]) == 0 && close(unread[0]) == 0);
    moment("filled");
    CHECK(fcntl(ends[0], F_GETPIPE_SZ) == 131072);
    CHECK(read(ends[0], got + 10, 49990) == 49990);
    CHECK(read(closed[0], got, 4) == 4);
    moment("half empty");
    CHECK(read(ends[0], got + 50000, 50000) == 50000 && memcmp(got + 10, bytes + 10, sizeof bytes - 10) == 0);
    CHECK(read(closed[0], got, 10) == 6 && memcmp(got, " words", 6) == 0 && read(closed[0], got, 1) == 0);
    CHECK(write(unread[1], "x", 1) == -1 && errno == EPIPE);
    CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 && read(ends[0], got, 1) == -1 && errno == EAGAIN);
    puts("read in order");
    return 0;
}
