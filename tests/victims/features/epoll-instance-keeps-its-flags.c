/* An epoll instance keeps the status flags that the program has set, and one without flags has none.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/epoll.h>

int main(void)
{
    int flagged = epoll_create1(EPOLL_CLOEXEC), plain = epoll_create1(0);
    CHECK(flagged >= 0 && plain >= 0);
    CHECK(fcntl(flagged, F_SETFL, O_NONBLOCK) == 0);
    int flags = fcntl(flagged, F_GETFL), usual = fcntl(plain, F_GETFL);
    CHECK(flags & O_NONBLOCK && !(usual & O_NONBLOCK));
    for (int life = 0; life < 2; life++) {
        moment("set");
        CHECK(fcntl(flagged, F_GETFL) == flags && fcntl(flagged, F_GETFD) == FD_CLOEXEC);
        CHECK(fcntl(plain, F_GETFL) == usual && fcntl(plain, F_GETFD) == 0);
    }
    puts("flagged");
    return 0;
}
