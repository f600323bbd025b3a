/* Bytes that were written to a pipe before packet mode (O_DIRECT) was set, or after it was cleared, stay bytes: a short
 * read leaves the rest of them. The packets between them stay packets.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int ends[2], plain[2];
    char room[64], packet[4093];
    CHECK(pipe(ends) == 0 && write(ends[1], "bytes", 5) == 5);
    /* The kernel adds a packet to a page of bytes if it fits there. This one fits only when two bytes have been read. */
    memset(packet, 'p', sizeof packet);
    CHECK(fcntl(ends[1], F_SETFL, O_DIRECT) == 0 && write(ends[1], packet, sizeof packet) == sizeof packet);
    CHECK(write(ends[1], "1", 1) == 1);
    CHECK(fcntl(ends[1], F_SETFL, 0) == 0 && write(ends[1], "more bytes", 10) == 10);
    CHECK(pipe(plain) == 0 && write(plain[1], "bytes only", 10) == 10 && fcntl(plain[1], F_SETFL, O_DIRECT) == 0);
    moment("mixed");
    CHECK(read(plain[0], room, 2) == 2 && memcmp(room, "by", 2) == 0);
    CHECK(read(ends[0], room, 2) == 2 && memcmp(room, "by", 2) == 0);
    moment("partly read");
    CHECK(read(plain[0], room, sizeof room) == 8 && memcmp(room, "tes only", 8) == 0);
    CHECK(read(ends[0], room, 5) == 5 && memcmp(room, "tespp", 5) == 0);
    CHECK(read(ends[0], room, sizeof room) == 1 && room[0] == '1');
    CHECK(read(ends[0], room, 4) == 4 && memcmp(room, "more", 4) == 0);
    CHECK(read(ends[0], room, sizeof room) == 6 && memcmp(room, " bytes", 6) == 0);
    CHECK(!(fcntl(ends[1], F_GETFL) & O_DIRECT) && fcntl(plain[1], F_GETFL) & O_DIRECT);
    puts("every byte and every packet");
    return 0;
}
