/* A process that has another root directory than the job is refused.
 *
 * expect: refuse "root directory"
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
        put(line.up[1], chroot("/usr"));
        await_silence(line.down[0]);
        _exit(0);
    }
    be_parent(&line);
    CHECK(get(line.up[0]) == 0);
    moment("apart");
    CHECK(close(line.down[1]) == 0);
    reap(child, 0);
    puts("apart");
    return 0;
}
