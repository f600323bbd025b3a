/* Descriptors opened with O_PATH lead to the same directory, file, symbolic link, named pipe and socket.
 *
 * expect: survive
 * no-rollback: the program removes pipe and socket at its end
 */
#include "check.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

int main(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "folder/socket"};
    struct stat before[5], after[5];
    char target[32] = {0};
    CHECK(mkdir("folder", 0755) == 0 && symlink("nowhere", "folder/link") == 0);
    int made = open("folder/file", O_WRONLY | O_CREAT, 0640);
    CHECK(made >= 0 && write(made, "inside", 6) == 6 && close(made) == 0);
    int bound = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(mkfifo("folder/pipe", 0600) == 0 && bound >= 0 && bind(bound, (struct sockaddr *)&at, sizeof at) == 0);
    int writer = open("folder/pipe", O_RDWR);
    int places[5] = {open("folder", O_PATH), open("folder/file", O_PATH), open("folder/link", O_PATH | O_NOFOLLOW),
                     open("folder/pipe", O_PATH), open("folder/socket", O_PATH)};
    CHECK(writer >= 0 && write(writer, "x", 1) == 1);
    for (int i = 0; i < 5; i++)
        CHECK(places[i] >= 0 && fstat(places[i], &before[i]) == 0);
    moment("places");
    for (int i = 0; i < 5; i++)
        CHECK(fstat(places[i], &after[i]) == 0 && before[i].st_mode == after[i].st_mode);
    for (int i = 0; i < 4; i++)
        CHECK(before[i].st_ino == after[i].st_ino);
    CHECK(readlinkat(places[2], "", target, sizeof target) == 7 && strcmp(target, "nowhere") == 0);
    char room[8] = {0};
    CHECK(read(places[1], room, sizeof room) == -1 && errno == EBADF);
    int file = openat(places[0], "file", O_RDONLY);
    CHECK(file >= 0 && read(file, room, sizeof room) == 6 && strcmp(room, "inside") == 0 && close(file) == 0);
    CHECK(read(writer, room, sizeof room) == 1 && unlink("folder/pipe") == 0 && unlink("folder/socket") == 0);
    puts("the same places");
    return 0;
}
