/* Descriptors opened with O_PATH lead to the same directory, file and symbolic link.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    struct stat before[3], after[3];
    char target[32] = {0};
    CHECK(mkdir("folder", 0755) == 0 && symlink("nowhere", "folder/link") == 0);
    int made = open("folder/file", O_WRONLY | O_CREAT, 0640);
    CHECK(made >= 0 && write(made, "inside", 6) == 6 && close(made) == 0);
    int places[3] = {open("folder", O_PATH), open("folder/file", O_PATH), open("folder/link", O_PATH | O_NOFOLLOW)};
    for (int i = 0; i < 3; i++)
        CHECK(places[i] >= 0 && fstat(places[i], &before[i]) == 0);
    moment("places");
    for (int i = 0; i < 3; i++)
        CHECK(fstat(places[i], &after[i]) == 0 && before[i].st_ino == after[i].st_ino && before[i].st_mode == after[i].st_mode);
    CHECK(readlinkat(places[2], "", target, sizeof target) == 7 && strcmp(target, "nowhere") == 0);
    char room[8] = {0};
    CHECK(read(places[1], room, sizeof room) == -1 && errno == EBADF);
    int file = openat(places[0], "file", O_RDONLY);
    CHECK(file >= 0 && read(file, room, sizeof room) == 6 && strcmp(room, "inside") == 0 && close(file) == 0);
    puts("the same places");
    return 0;
}
