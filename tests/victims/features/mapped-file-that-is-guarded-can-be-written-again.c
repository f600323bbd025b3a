/* A shared file mapping that the program guards, by making it writable only while it writes, is writable again after a restart
 * and holds what it held at the checkpoint, in the file as well. What it may do counts, not what it may do at the stop.
 *
 * expect: survive
 */
#include "mapped.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 40, ROUNDS = 3 };

int main(void)
{
    char back;
    int file = open("state", O_RDWR | O_CREAT | O_TRUNC, 0640);
    CHECK(file >= 0 && ftruncate(file, PAGES * PAGE - 100) == 0);
    char *map = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED && close(file) == 0 && (file = open("state", O_RDONLY)) >= 0);
    const char *reader = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, file, 0);
    CHECK(reader != MAP_FAILED && close(file) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(mprotect(map, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
        for (int i = round; i < PAGES; i += 2)
            map[i * PAGE + 16 + round]++;
        CHECK(mprotect(map, PAGES * PAGE, PROT_READ) == 0);
        moment("guarded");
        CHECK(has_flag(map, " mw") && !has_flag(reader, " mw"));
        for (int i = 0; i < PAGES; i++) {
            for (int r = 0; r < ROUNDS; r++) {
                int expected = r <= round && i >= r && (i - r) % 2 == 0;
                CHECK(map[i * PAGE + 16 + r] == expected && reader[i * PAGE + 16 + r] == expected);
            }
        }
        CHECK((file = open("state", O_RDONLY)) >= 0 && pread(file, &back, 1, 2 * PAGE + 16) == 1 && close(file) == 0);
        CHECK(back == map[2 * PAGE + 16]);
    }
    CHECK(mprotect((char *)reader, PAGE, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
    CHECK(munmap(map, PAGES * PAGE) == 0);
    puts("guarded");
    return 0;
}
