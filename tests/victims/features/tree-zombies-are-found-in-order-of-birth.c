/* wait(2) finds children that have ended in the order in which they were made, also one that ended after the restart, and one
 * that was adopted from another session.
 *
 * expect: survive
 */
#include "family.h"
#include <sys/prctl.h>

enum { COUNT = 6, ADOPTED = 2 };

/* Makes a child whose parent leads a session and ends, so that this process adopts it. Returns its pid, and 0 in the child. */
static pid_t adopted(void)
{
    int told[2];
    pid_t leader, child;
    CHECK(pipe(told) == 0 && (leader = fork()) >= 0);
    if (leader == 0) {
        CHECK(setsid() == getpid() && (child = fork()) >= 0);
        if (child != 0) {
            put(told[1], child);
            _exit(0);
        }
        CHECK(close(told[0]) == 0 && close(told[1]) == 0);
        return 0;
    }
    child = get(told[0]);
    CHECK(close(told[0]) == 0 && close(told[1]) == 0);
    reap(leader, 0);
    return child;
}

int main(void)
{
    pid_t children[COUNT];
    int lines[COUNT][2];
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK(pipe(lines[i]) == 0);
        CHECK((children[i] = i == ADOPTED ? adopted() : fork()) >= 0);
        if (children[i] == 0) {
            for (int other = 0; other <= i; other++)
                CHECK(close(lines[other][1]) == 0);
            await_silence(lines[i][0]);
            _exit(i);
        }
    }
    /* The odd ones end now. */
    for (int i = 1; i < COUNT; i += 2) {
        CHECK(close(lines[i][1]) == 0);
        await_state(children[i], 'Z');
    }
    moment("half");
    for (int i = 0; i < COUNT; i += 2) {
        CHECK(close(lines[i][1]) == 0);
        await_state(children[i], 'Z');
    }
    moment("all");
    for (int i = 0; i < COUNT; i++) {
        int status;
        CHECK(wait(&status) == children[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == i);
    }
    puts("in order");
    return 0;
}
