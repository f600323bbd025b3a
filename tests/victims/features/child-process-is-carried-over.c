/* A child process goes on with what it was doing, under its old id, and its parent finds it and how it ended.
 *
 * expect: survive
 * needs: namespaces
 */
#include "check.h"
#include <sys/wait.h>

int main(void)
{
    int status, to_child[2], to_parent[2], word;
    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(to_child[1]) == 0 && close(to_parent[0]) == 0);
        for (int sum = 0; read(to_child[0], &word, sizeof word) == sizeof word;) {
            CHECK(getppid() == parent);
            sum += word;
            CHECK(write(to_parent[1], &sum, sizeof sum) == sizeof sum);
        }
        _exit(5);
    }
    CHECK(close(to_child[0]) == 0 && close(to_parent[1]) == 0);
    for (int round = 1, sum = 0; round <= 3; round++) {
        CHECK(write(to_child[1], &round, sizeof round) == sizeof round);
        moment("asked");
        CHECK(read(to_parent[0], &word, sizeof word) == sizeof word);
        CHECK(word == (sum += round));
        CHECK(waitpid(-1, &status, WNOHANG) == 0);
    }
    CHECK(close(to_child[1]) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    puts("child: added up and gone");
    return 0;
}
