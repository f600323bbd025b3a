/* A file that is mapped shared is written like memory, and a restart puts back what it held at the checkpoint, for readers
 * of the file as well as for the mapping.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 40, ROUNDS = 3 };

int main(void)
{
    char back[PAGE];
    int file = open("state", O_RDWR | O_CREAT | O_TRUNC, 0640);
    CHECK(file >= 0 && ftruncate(file, PAGES * PAGE - 100) == 0);
    char *map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED && close(file) == 0);
    uint64_t *count = (uint64_t *)map;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = round; i < PAGES; i += 2)
            map[i * PAGE + 16 + round]++;
        *count += 1;
        moment("written");
        CHECK(*count == (uint64_t)round + 1);
        for (int i = 0; i < PAGES; i++) {
            for (int r = 0; r < ROUNDS; r++)
                CHECK(map[i * PAGE + 16 + r] == (r <= round && i >= r && (i - r) % 2 == 0));
        }
        CHECK((file = open("state", O_RDONLY)) >= 0 && pread(file, back, PAGE, 0) == PAGE && close(file) == 0);
        CHECK(memcmp(back, map, PAGE) == 0);
    }
    CHECK(msync(map, PAGES * PAGE, MS_SYNC) == 0 && munmap(map, PAGES * PAGE) == 0);
    puts("put back");
    return 0;
}
