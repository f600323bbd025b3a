/* Files that the program writes in the middle of, shortens, lengthens and deletes come back as they were at the checkpoint
 * when they are saved with it.
 *
 * expect: survive
 * run: --save-files
 */
#include "check.h"
#include <fcntl.h>

enum { BYTES = 70000, FILES = 4 };
static const char *const names[FILES] = {"overwritten", "shortened", "lengthened", "deleted"};
static unsigned char held[FILES][BYTES + 100], found[BYTES + 200];
static int files[FILES];

static void check(int number, size_t bytes)
{
    CHECK(pread(files[number], found, sizeof found, 0) == (ssize_t)bytes && memcmp(found, held[number], bytes) == 0);
    int by_name = open(names[number], O_RDONLY);
    CHECK(by_name >= 0 && read(by_name, found, sizeof found) == (ssize_t)bytes && close(by_name) == 0);
    CHECK(memcmp(found, held[number], bytes) == 0);
}

int main(void)
{
    uint64_t random = 7;
    for (int i = 0; i < FILES; i++) {
        for (size_t at = 0; at < sizeof held[i]; at++)
            held[i][at] = (unsigned char)next_number(&random);
        CHECK((files[i] = open(names[i], O_RDWR | O_CREAT, 0640)) >= 0);
        CHECK(write(files[i], held[i], BYTES) == BYTES);
    }
    moment("as written");
    for (int i = 0; i < FILES; i++)
        check(i, BYTES);
    CHECK(pwrite(files[0], "other", 5, 4090) == 5 && ftruncate(files[1], 5000) == 0);
    memcpy(held[0] + 4090, "other", 5);
    CHECK(write(files[2], held[2] + BYTES, 100) == 100);
    moment("changed once");
    check(0, BYTES);
    check(1, 5000);
    check(2, BYTES + 100);
    check(3, BYTES);
    CHECK(pwrite(files[0], "once more", 9, 60000) == 9);
    memcpy(held[0] + 60000, "once more", 9);
    CHECK(unlink("deleted") == 0 && close(files[3]) == 0);
    check(0, BYTES);
    puts("all files were as they had been");
    return 0;
}
