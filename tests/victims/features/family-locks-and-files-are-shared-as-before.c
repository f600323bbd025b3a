/* What processes share of a file they share again: the open file and its lock; and each has the locks of its own.
 *
 * expect: survive
 * needs: namespaces
 */
#include "check.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

static int lock(int file, short kind, off_t start)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = 1};
    return fcntl(file, F_SETLK, &lock);
}

int main(void)
{
    int ask[2], answer[2], status;
    char word;
    int shared = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0644), scratch = open("gone", O_RDWR | O_CREAT, 0600);
    CHECK(shared >= 0 && scratch >= 0 && unlink("gone") == 0 && write(scratch, "deleted", 7) == 7);
    CHECK(flock(shared, LOCK_EX) == 0 && pipe(ask) == 0 && pipe(answer) == 0 && lock(shared, F_WRLCK, 1) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int own = open("shared", O_RDWR);
        CHECK(close(ask[1]) == 0 && own >= 0 && lock(shared, F_WRLCK, 2) == 0);
        for (word = 'a'; write(answer[1], &word, 1) == 1 && read(ask[0], &word, 1) == 1; word++) {
            CHECK(lock(own, F_WRLCK, 1) == -1 && (errno == EAGAIN || errno == EACCES));
            CHECK(flock(own, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK);
            CHECK(write(shared, &word, 1) == 1 && write(scratch, &word, 1) == 1);
        }
        _exit(4);
    }
    CHECK(close(ask[0]) == 0);
    for (int round = 0; round < 3; round++) {
        CHECK(read(answer[0], &word, 1) == 1);
        moment("locked by both");
        CHECK(lock(shared, F_WRLCK, 2) == -1 && (errno == EAGAIN || errno == EACCES));
        CHECK(write(shared, "p", 1) == 1 && write(scratch, "p", 1) == 1 && write(ask[1], &word, 1) == 1);
    }
    CHECK(read(answer[0], &word, 1) == 1 && close(ask[1]) == 0);
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4);
    char text[32] = {0};
    CHECK(pread(shared, text, sizeof text, 0) == 6 && strcmp(text, "papbpc") == 0);
    memset(text, 0, sizeof text);
    CHECK(pread(scratch, text, sizeof text, 0) == 13 && strcmp(text, "deletedpapbpc") == 0);
    CHECK(lock(shared, F_WRLCK, 2) == 0);
    puts("locks and files: shared");
    return 0;
}
