/* A file that is mapped shared, and is gone with its directory at a restart, is made again with what it held.
 *
 * expect: survive
 * meanwhile: rm -r place
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { BYTES = 3 * 4096 };

int main(void)
{
    struct stat status;
    CHECK(mkdir("place", 0755) == 0);
    int file = open("place/state", O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && ftruncate(file, BYTES) == 0);
    char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED && close(file) == 0);
    strcpy(map + 4096, "here");
    moment("mapped");
    CHECK(strcmp(map + 4096, "here") == 0 && map[0] == 0);
    strcpy(map, "there");
    moment("written");
    CHECK(strcmp(map, "there") == 0);
    CHECK(stat("place/state", &status) == 0 && status.st_size == BYTES && (status.st_mode & 0777) == 0600);
    puts("made again");
    return 0;
}
