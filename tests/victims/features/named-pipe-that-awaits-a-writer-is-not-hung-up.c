/* A named pipe that nobody has opened for writing yet is not hung up (POLLHUP); one whose writer has gone is.
 *
 * expect: survive
 * no-rollback: the program removes the pipe at its end
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>

static int events_of(int pipe)
{
    struct pollfd polled = {.fd = pipe, .events = POLLIN};
    CHECK(poll(&polled, 1, 0) >= 0);
    return polled.revents;
}

int main(void)
{
    char letter;
    CHECK(mkfifo("awaiting", 0600) == 0 && mkfifo("left", 0600) == 0);
    int awaiting = open("awaiting", O_RDONLY | O_NONBLOCK), left = open("left", O_RDONLY | O_NONBLOCK);
    int waits = open("awaiting", O_RDONLY | O_NONBLOCK), writer = open("left", O_WRONLY);
    CHECK(awaiting >= 0 && left >= 0 && waits >= 0 && writer >= 0 && close(writer) == 0);
    CHECK(fcntl(waits, F_SETFL, 0) == 0);
    for (int life = 0; life < 2; life++) {
        moment("awaited");
        CHECK(events_of(awaiting) == 0 && events_of(waits) == 0 && events_of(left) == POLLHUP);
        CHECK(fcntl(awaiting, F_GETFL) & O_NONBLOCK && !(fcntl(waits, F_GETFL) & O_NONBLOCK));
    }
    writer = open("awaiting", O_WRONLY | O_NONBLOCK);
    CHECK(writer >= 0 && write(writer, "!", 1) == 1);
    CHECK(events_of(awaiting) == POLLIN && read(waits, &letter, 1) == 1 && letter == '!');
    CHECK(close(writer) == 0 && events_of(awaiting) == POLLHUP);
    CHECK(unlink("awaiting") == 0 && unlink("left") == 0);
    puts("a writer came");
    return 0;
}
