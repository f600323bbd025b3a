/* A process whose parent has ended stays with the job, and finds what it shares with the others.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    struct line line;
    open_line(&line);
    pid_t between = fork();
    CHECK(between >= 0);
    if (between == 0) {
        if (fork() == 0) {
            int word;
            be_child(&line);
            while (getppid() == between)
                usleep(200);
            put(line.up[1], getpid());
            while (read(line.down[0], &word, sizeof word) == sizeof word)
                put(line.up[1], word * 2);
            _exit(0);
        }
        _exit(0);
    }
    be_parent(&line);
    reap(between, 0);
    pid_t orphan = get(line.up[0]);
    moment("orphaned");
    put(line.down[1], 21);
    CHECK(get(line.up[0]) == 42);
    CHECK(kill(orphan, 0) == 0);
    CHECK(waitpid(orphan, NULL, WNOHANG) == -1 && errno == ECHILD);
    moment("asked");
    put(line.down[1], 4);
    CHECK(get(line.up[0]) == 8);
    CHECK(close(line.down[1]) == 0);
    await_silence(line.up[0]);
    puts("the orphan answered");
    return 0;
}
