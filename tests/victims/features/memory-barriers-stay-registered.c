/* A program that has registered for memory barriers (membarrier) goes on to use them without registering once more.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/syscall.h>

enum {
    REGISTER_GLOBAL = 1 << 2,
    PRIVATE = 1 << 3,
    REGISTER_PRIVATE = 1 << 4,
    SYNC_CORE = 1 << 5,
    REGISTER_SYNC_CORE = 1 << 6,
    GET_REGISTRATIONS = 1 << 9,
};

static long barrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

int main(void)
{
    long commands = barrier(0);
    if (commands < 0 || !(commands & REGISTER_SYNC_CORE))
        LACKS("expedited memory barriers");
    moment("none registered");
    CHECK(barrier(PRIVATE) == -1 && errno == EPERM);
    CHECK(barrier(REGISTER_GLOBAL) == 0 && barrier(REGISTER_PRIVATE) == 0 && barrier(REGISTER_SYNC_CORE) == 0);
    long registered = barrier(GET_REGISTRATIONS);
    moment("registered");
    CHECK(barrier(PRIVATE) == 0 && barrier(SYNC_CORE) == 0);
    CHECK(barrier(GET_REGISTRATIONS) == registered);
    puts("in order");
    return 0;
}
