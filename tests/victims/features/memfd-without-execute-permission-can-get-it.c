/* The permissions of a memfd come back without seals that it has not had: it can be made executable later on.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
    struct stat status;
    int memory = memfd_create("data", 0), sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
    CHECK(memory >= 0 && sealed >= 0 && fchmod(memory, 0600) == 0 && fchmod(sealed, 0640) == 0);
    int seals = fcntl(memory, F_GET_SEALS);
    moment("not executable");
    CHECK(fcntl(memory, F_GET_SEALS) == seals && fcntl(sealed, F_GET_SEALS) == 0);
    CHECK(fchmod(memory, 0700) == 0 && fstat(memory, &status) == 0 && (status.st_mode & 0777) == 0700);
    CHECK(fstat(sealed, &status) == 0 && (status.st_mode & 0777) == 0640);
    puts("made executable");
    return 0;
}
