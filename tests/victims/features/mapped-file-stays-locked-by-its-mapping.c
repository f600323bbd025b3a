/* A lock of a whole file that only the mapping of the file keeps alive, since its descriptor is closed (the Java virtual
 * machine does so), is held after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>

int main(void)
{
    int file = open("state", O_RDWR | O_CREAT | O_TRUNC, 0640);
    CHECK(file >= 0 && ftruncate(file, 4096) == 0 && flock(file, LOCK_EX) == 0);
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED && close(file) == 0);
    for (int life = 0; life < 2; life++) {
        moment("locked");
        CHECK((file = open("state", O_RDWR)) >= 0);
        CHECK(flock(file, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK && close(file) == 0);
    }
    CHECK(munmap(map, 4096) == 0);
    CHECK((file = open("state", O_RDWR)) >= 0 && flock(file, LOCK_SH | LOCK_NB) == 0 && close(file) == 0);
    puts("locked");
    return 0;
}
