/* What somebody else has written to a mapped file is left as it is where that is asked for.
 *
 * expect: survive
 * meanwhile: printf changed | dd of=state conv=notrunc status=none
 * restart: --files keep
 * no-rollback: what the file holds is not put back
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
    CHECK(strcmp(map, getenv("VICTIM_MOMENTS") == NULL ? "unchanged" : "changeded") == 0);
    strcpy(map, "the end");
    puts("as it is");
    return 0;
}
