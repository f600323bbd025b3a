/* What somebody else has written to a file that the program had mapped is not overwritten: the restart is refused.
 *
 * expect: refuse-restart "mapped file" "state" "--files"
 * meanwhile: printf changed | dd of=state conv=notrunc status=none
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
    int file = open("state", O_RDWR | O_CREAT | O_TRUNC, 0640);
    CHECK(file >= 0 && ftruncate(file, 4096) == 0);
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED && close(file) == 0);
    strcpy(map, "unchanged");
    moment("mapped");
    puts("not reached after a restart");
    return 0;
}
