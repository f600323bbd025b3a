/* A process that has put itself into namespaces of its own is refused: a restart would not give it these.
 *
 * expect: refuse "namespace" "user"
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
        put(line.up[1], unshare(CLONE_NEWUSER));
        await_silence(line.down[0]);
        _exit(0);
    }
    be_parent(&line);
    if (get(line.up[0]) != 0)
        LACKS("user namespaces");
    moment("apart");
    CHECK(close(line.down[1]) == 0);
    reap(child, 0);
    puts("apart");
    return 0;
}
