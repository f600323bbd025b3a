/* A process that has become another user than the rest of the job is refused.
 *
 * expect: refuse "user"
 * needs: root
 */
#include "family.h"

int main(void)
{
    struct line line;
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        CHECK(setresuid(65534, 65534, 65534) == 0);
        put(line.up[1], 1);
        await_silence(line.down[0]);
        _exit(0);
    }
    be_parent(&line);
    CHECK(get(line.up[0]) == 1);
    moment("another");
    CHECK(close(line.down[1]) == 0);
    reap(child, 0);
    puts("another");
    return 0;
}
