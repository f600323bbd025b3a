/* Processes that share their table of descriptors without being parent and child are refused by name.
 *
 * expect: refuse "shares its table of descriptors"
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
        /* A child of our parent's. */
        pid_t sibling = syscall(SYS_clone, CLONE_FILES | CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
        CHECK(sibling >= 0);
        if (sibling > 0)
            put(line.up[1], sibling);
        await_silence(line.down[0]);
        _exit(3);
    }
    be_parent(&line);
    pid_t sibling = get(line.up[0]);
    moment("shared");
    CHECK(close(line.down[1]) == 0);
    reap(child, 3);
    reap(sibling, 3);
    puts("shared");
    return 0;
}
