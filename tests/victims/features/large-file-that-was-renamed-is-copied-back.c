/* Results that are written under a temporary name and renamed when they are complete: a checkpoint in the middle of a large one
 * can be restarted though the file has its last name by then. The file is written once more.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

enum { BYTES = 3 << 20, HALF = BYTES / 2 };

static char room[BYTES];

int main(void)
{
    struct stat now;
    for (size_t i = 0; i < BYTES; i++)
        room[i] = (char)(i * 31 >> 3);
    int file = open("result.part", O_WRONLY | O_CREAT | O_TRUNC, 0640);
    CHECK(file >= 0 && write(file, room, HALF) == HALF);
    moment("half");
    CHECK(stat("result.part", &now) == 0 && now.st_size == HALF && (now.st_mode & 0777) == 0640);
    CHECK(write(file, room + HALF, BYTES - HALF) == BYTES - HALF && fsync(file) == 0 && close(file) == 0);
    CHECK(rename("result.part", "result") == 0);
    moment("renamed");
    static char found[BYTES];
    file = open("result", O_RDONLY);
    CHECK(file >= 0 && read(file, found, BYTES) == BYTES && memcmp(found, room, BYTES) == 0);
    CHECK(access("result.part", F_OK) == -1);
    puts("complete");
    return 0;
}
