/* Event descriptors keep their counts, those with semaphore semantics, too.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

int main(void)
{
    uint64_t value = 0x123456789abc;
    int plain = eventfd(5, EFD_CLOEXEC), counting = eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK);
    CHECK(plain >= 0 && counting >= 0 && write(plain, &value, 8) == 8);
    moment("counted");
    CHECK(read(plain, &value, 8) == 8 && value == 0x123456789abc + 5);
    struct pollfd watched = {.fd = plain, .events = POLLIN | POLLOUT};
    CHECK(poll(&watched, 1, 0) == 1 && watched.revents == POLLOUT);
    CHECK(read(counting, &value, 8) == 8 && value == 1);
    moment("counted down");
    for (int i = 0; i < 2; i++)
        CHECK(read(counting, &value, 8) == 8 && value == 1);
    CHECK(read(counting, &value, 8) == -1 && errno == EAGAIN);
    CHECK(fcntl(plain, F_GETFD) == FD_CLOEXEC && fcntl(counting, F_GETFD) == 0);
    puts("counted");
    return 0;
}
