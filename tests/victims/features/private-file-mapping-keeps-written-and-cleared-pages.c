/* Of a private file mapping, written pages keep what was written (all zeros, too), and the others show the file.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 8 };

int main(void)
{
    char page[PAGE];
    int file = open("input", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0);
    for (int i = 0; i < PAGES; i++) {
        memset(page, 'a' + i, PAGE);
        CHECK(write(file, page, PAGE) == PAGE);
    }
    CHECK(close(file) == 0 && (file = open("input", O_RDONLY)) >= 0);
    char *map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(map != MAP_FAILED && close(file) == 0);
    map[1 * PAGE + 17] = 'X';
    memset(map + 2 * PAGE, 0, PAGE);
    CHECK(map[3 * PAGE] == 'd'); /* read, not written */
    for (int life = 0; life < 2; life++) {
        moment("mapped");
        CHECK(map[0] == 'a' && map[1 * PAGE + 16] == 'b' && map[1 * PAGE + 17] == 'X' && map[1 * PAGE + 18] == 'b');
        for (int i = 0; i < PAGE; i++)
            CHECK(map[2 * PAGE + i] == 0);
        for (int i = 3; i < PAGES; i++)
            CHECK(map[i * PAGE] == 'a' + i && map[i * PAGE + PAGE - 1] == 'a' + i);
    }
    CHECK(madvise(map, PAGES * PAGE, MADV_DONTNEED) == 0);
    for (int i = 0; i < PAGES; i++)
        CHECK(map[i * PAGE + 17] == 'a' + i);
    puts("pages of the file and pages of our own");
    return 0;
}
