/* A memfd that may not become executable, or may not cease to be so (F_SEAL_EXEC), comes back with its seals and its
 * permissions.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

enum { FILES = 5 };

static mode_t mode_of(int file)
{
    struct stat found;
    CHECK(fstat(file, &found) == 0);
    return found.st_mode & 07777;
}

int main(void)
{
    static const mode_t MODES[FILES] = {0777, 0700, 0600, 0640, 0500};
    int files[FILES], seals[FILES];
    int trial = memfd_create("trial", MFD_NOEXEC_SEAL);
    if (trial < 0 && errno == EINVAL)
        LACKS("seals against changes of execution (Linux 6.3)");
    CHECK(trial >= 0 && close(trial) == 0);
    for (int at = 0; at < FILES; at++) {
        files[at] = memfd_create("sealed", at == 3 ? MFD_NOEXEC_SEAL : MFD_ALLOW_SEALING);
        CHECK(files[at] >= 0 && write(files[at], "fixed", 5) == 5 && fchmod(files[at], MODES[at]) == 0);
        CHECK(fcntl(files[at], F_ADD_SEALS, F_SEAL_EXEC) == 0);
        seals[at] = fcntl(files[at], F_GET_SEALS);
        CHECK(seals[at] & F_SEAL_EXEC);
    }
    for (int round = 0; round < 2; round++) {
        moment("sealed");
        for (int at = 0; at < FILES; at++) {
            char room[8] = {0};
            CHECK(fcntl(files[at], F_GET_SEALS) == seals[at] && mode_of(files[at]) == MODES[at]);
            CHECK(fchmod(files[at], MODES[at] ^ 0100) == -1 && errno == EPERM);
            CHECK(pread(files[at], room, 8, 0) == 5 && strcmp(room, "fixed") == 0);
        }
    }
    CHECK(write(files[2], "more", 4) == 4 && fchmod(files[2], 0666) == 0);
    puts("sealed");
    return 0;
}
