/* An open directory is listed on from where the program had come to, and serves as a starting point for paths.
 *
 * expect: survive
 */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>

enum { FILES = 300 };

int main(void)
{
    char name[32];
    int seen[FILES] = {0}, count = 0, number;
    CHECK(mkdir("full", 0755) == 0);
    int at = open("full", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(at >= 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "file-%d", i);
        int made = openat(at, name, O_WRONLY | O_CREAT, 0644);
        CHECK(made >= 0 && close(made) == 0);
    }
    /* A small buffer, so that most of the directory is still the kernel's when the program is struck. */
    DIR *listing = fdopendir(dup(at));
    CHECK(listing != NULL);
    moment("unread");
    char buffer[1024] __attribute__((aligned(8)));
    for (int round = 0;; round++) {
        long bytes = getdents64(dirfd(listing), buffer, sizeof buffer);
        CHECK(bytes >= 0);
        if (bytes == 0)
            break;
        for (long place = 0; place < bytes;) {
            struct dirent64 *entry = (struct dirent64 *)(buffer + place);
            if (sscanf(entry->d_name, "file-%d", &number) == 1) {
                CHECK(number >= 0 && number < FILES && !seen[number]++);
                count++;
            }
            place += entry->d_reclen;
        }
        if (round == 2)
            moment("listed in part");
    }
    CHECK(count == FILES);
    moment("listed");
    CHECK(faccessat(at, "file-7", F_OK, 0) == 0 && (fcntl(at, F_GETFD) & FD_CLOEXEC));
    CHECK(lseek(at, 0, SEEK_CUR) == lseek(dirfd(listing), 0, SEEK_CUR));
    CHECK(closedir(listing) == 0 && close(at) == 0);
    puts("each file once");
    return 0;
}
