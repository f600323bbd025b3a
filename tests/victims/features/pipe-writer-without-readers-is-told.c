/* A process that is blocked in a full pipe is told when the last reader goes, after a restart.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        static char block[1 << 16];
        CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
        CHECK(close(ends[0]) == 0);
        for (;;) {
            if (write(ends[1], block, sizeof block) == -1) {
                CHECK(errno == EPIPE);
                _exit(6);
            }
        }
    }
    CHECK(close(ends[1]) == 0);
    await_call_of(child, SYS_write);
    moment("full");
    CHECK(waitpid(child, NULL, WNOHANG) == 0);
    CHECK(close(ends[0]) == 0);
    reap(child, 6);
    puts("told");
    return 0;
}
