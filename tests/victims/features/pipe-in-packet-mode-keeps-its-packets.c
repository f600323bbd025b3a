/* Packets in a pipe (O_DIRECT) stay apart: each read gives one, and what a short read leaves of it is gone.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int ends[2];
    char room[8192];
    CHECK(pipe2(ends, O_DIRECT) == 0);
    CHECK(write(ends[1], "one", 3) == 3 && write(ends[1], "three", 5) == 5 && write(ends[1], "fourteen", 8) == 8);
    memset(room, 'z', sizeof room);
    CHECK(write(ends[1], room, 5000) == 5000);
    moment("packets");
    CHECK(read(ends[0], room, 2) == 2 && memcmp(room, "on", 2) == 0);
    CHECK(read(ends[0], room, sizeof room) == 5 && memcmp(room, "three", 5) == 0);
    CHECK(read(ends[0], room, sizeof room) == 8 && memcmp(room, "fourteen", 8) == 0);
    CHECK(read(ends[0], room, sizeof room) == 4096 && read(ends[0], room, sizeof room) == 904);
    CHECK(fcntl(ends[1], F_GETFL) & O_DIRECT);
    CHECK(write(ends[1], "a", 1) == 1 && write(ends[1], "b", 1) == 1);
    moment("writerless");
    CHECK(close(ends[1]) == 0);
    moment("peer gone");
    CHECK(read(ends[0], room, sizeof room) == 1 && read(ends[0], room, sizeof room) == 1);
    CHECK(read(ends[0], room, sizeof room) == 0);
    puts("no two packets were mixed");
    return 0;
}
