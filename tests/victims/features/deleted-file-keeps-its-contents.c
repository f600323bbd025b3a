/* A file that was deleted while open keeps contents, holes, offset and permissions, and descriptors that share it
 * still do.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    struct stat now;
    char room[16] = {0};
    int file = open("scratch", O_RDWR | O_CREAT | O_EXCL, 0400), shared = dup(file), other = open("scratch", O_RDONLY);
    CHECK(file >= 0 && shared >= 0 && other >= 0 && unlink("scratch") == 0);
    CHECK(write(file, "one two three", 13) == 13 && pwrite(file, "end", 3, 1 << 20) == 3);
    CHECK(read(other, room, 4) == 4);
    moment("deleted");
    CHECK(fstat(file, &now) == 0 && now.st_nlink == 0 && now.st_size == (1 << 20) + 3 && (now.st_mode & 0777) == 0400);
    CHECK(now.st_blocks < 100);
    CHECK(lseek(shared, 0, SEEK_CUR) == 13 && write(shared, " four", 5) == 5 && lseek(file, 0, SEEK_CUR) == 18);
    memset(room, 0, sizeof room);
    CHECK(read(other, room, 9) == 9 && strcmp(room, "two three") == 0);
    moment("written");
    memset(room, 0, sizeof room);
    CHECK(read(other, room, 5) == 5 && strcmp(room, " four") == 0);
    CHECK(pread(other, room, 4, 1 << 20) == 3 && memcmp(room, "end", 3) == 0);
    CHECK(pread(other, room, 4, 1 << 19) == 4 && memcmp(room, "\0\0\0", 4) == 0);
    CHECK(write(other, "x", 1) == -1 && errno == EBADF && access("scratch", F_OK) == -1);
    puts("nothing was lost with the name");
    return 0;
}
