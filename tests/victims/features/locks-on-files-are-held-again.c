/* Locks are held again: flock, locks of the process and of open file descriptions, on ranges, shared and
 * exclusive.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/file.h>

static void lock(int file, int command, short kind, off_t start, off_t length, int expected)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    int answer = fcntl(file, command, &lock);
    CHECK(expected == 0 ? answer == 0 : answer == -1 && errno == expected);
}

/* Who holds what: the kinds of all locks on a file, as /proc tells them. */
static int locks_on(int file, const char *kind)
{
    char path[64], line[256];
    int count = 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", file);
    FILE *told = fopen(path, "r");
    CHECK(told != NULL);
    while (fgets(line, sizeof line, told))
        count += strncmp(line, "lock:", 5) == 0 && strstr(line, kind) != NULL;
    CHECK(fclose(told) == 0);
    return count;
}

int main(void)
{
    int whole = open("whole", O_RDWR | O_CREAT, 0644), other = open("whole", O_RDONLY);
    int own = open("own", O_RDWR | O_CREAT, 0644);
    int ranges = open("ranges", O_RDWR | O_CREAT, 0644), stranger = open("ranges", O_RDWR);
    CHECK(whole >= 0 && other >= 0 && own >= 0 && ranges >= 0 && stranger >= 0);
    CHECK(flock(whole, LOCK_EX) == 0);
    lock(own, F_SETLK, F_WRLCK, 10, 5, 0);
    lock(own, F_SETLK, F_RDLCK, 100, 0, 0);
    lock(ranges, F_OFD_SETLK, F_WRLCK, 7, 3, 0);
    lock(stranger, F_OFD_SETLK, F_RDLCK, 50, 1, 0);
    moment("locked");
    CHECK(flock(other, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK);
    CHECK(locks_on(own, "POSIX") == 2);
    struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 9};
    CHECK(fcntl(stranger, F_OFD_GETLK, &asked) == 0 && asked.l_type == F_WRLCK && asked.l_start == 7 && asked.l_len == 3);
    lock(stranger, F_OFD_SETLK, F_WRLCK, 9, 1, EAGAIN);
    lock(ranges, F_OFD_SETLK, F_RDLCK, 50, 1, 0);
    lock(ranges, F_OFD_SETLK, F_WRLCK, 50, 1, EAGAIN);
    CHECK(flock(whole, LOCK_SH) == 0 && flock(other, LOCK_SH | LOCK_NB) == 0);
    lock(own, F_SETLK, F_UNLCK, 10, 5, 0);
    moment("shared");
    CHECK(flock(other, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK && locks_on(own, "POSIX") == 1);
    CHECK(flock(whole, LOCK_UN) == 0 && flock(other, LOCK_EX | LOCK_NB) == 0);
    /* To close any descriptor of a file gives up all locks that the process has there. */
    CHECK(close(dup(own)) == 0 && locks_on(own, "POSIX") == 0);
    puts("locked as before");
    return 0;
}
