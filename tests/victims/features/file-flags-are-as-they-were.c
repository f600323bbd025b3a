/* Open files keep their flags: append, direct, synchronous, non-blocking, no access time.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    const int wanted[] = {O_APPEND, O_DSYNC, O_SYNC, O_NONBLOCK, O_NOATIME, O_DIRECT, O_APPEND | O_SYNC | O_NONBLOCK};
    enum { NUMBER = sizeof wanted / sizeof *wanted };
    int files[NUMBER], flags[NUMBER];
    CHECK(close(open("file", O_WRONLY | O_CREAT, 0644)) == 0);
    for (int i = 0; i < NUMBER; i++) {
        files[i] = open("file", O_RDWR | wanted[i]);
        if (files[i] < 0 && wanted[i] == O_DIRECT)
            files[i] = open("file", O_RDWR);
        CHECK(files[i] >= 0);
        flags[i] = fcntl(files[i], F_GETFL);
    }
    moment("open");
    for (int i = 0; i < NUMBER; i++)
        CHECK(fcntl(files[i], F_GETFL) == flags[i]);
    puts("as they were");
    return 0;
}
