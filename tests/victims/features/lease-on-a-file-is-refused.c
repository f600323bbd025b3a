/* A lease on a file (F_SETLEASE) is refused by name.
 *
 * expect: refuse "lease"
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int file = open("leased", O_RDWR | O_CREAT, 0644);
    CHECK(file >= 0);
    if (fcntl(file, F_SETLEASE, F_WRLCK) != 0)
        LACKS("leases on this file system");
    moment("leased");
    CHECK(fcntl(file, F_GETLEASE) == F_WRLCK && fcntl(file, F_SETLEASE, F_UNLCK) == 0);
    puts("leased");
    return 0;
}
