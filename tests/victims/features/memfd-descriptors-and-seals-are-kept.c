/* A memfd comes back behind its descriptors: contents, offset, seals, and what is mapped of it is the same memory.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
    char room[16] = {0}, path[64];
    int file = memfd_create("heap", MFD_ALLOW_SEALING), sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
    CHECK(file >= 0 && sealed >= 0 && ftruncate(file, 3 * 4096) == 0 && write(sealed, "fixed", 5) == 5);
    char *shown = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(shown != MAP_FAILED && lseek(file, 4096, SEEK_SET) == 4096 && write(file, "written", 7) == 7);
    CHECK(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_SEAL) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int reader = open(path, O_RDONLY);
    CHECK(reader >= 0);
    moment("memfd");
    CHECK(lseek(file, 0, SEEK_CUR) == 4103 && strcmp(shown + 4096, "written") == 0);
    strcpy(shown + 2 * 4096, "mapped");
    CHECK(pread(reader, room, 6, 2 * 4096) == 6 && strcmp(room, "mapped") == 0 && write(reader, "x", 1) == -1);
    CHECK(fcntl(sealed, F_GET_SEALS) == (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_SEAL));
    memset(room, 0, sizeof room);
    CHECK(write(sealed, "x", 1) == -1 && errno == EPERM && pread(sealed, room, 8, 0) == 5 && strcmp(room, "fixed") == 0);
    CHECK(ftruncate(file, 4096) == 0);
    moment("shorter");
    CHECK(lseek(file, 0, SEEK_END) == 4096);
    puts("one memory");
    return 0;
}
