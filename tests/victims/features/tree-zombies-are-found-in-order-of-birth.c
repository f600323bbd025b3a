/* wait(2) finds children that have ended in the order in which they were made, also one that ended after the restart.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    enum { COUNT = 6 };
    pid_t children[COUNT];
    int lines[COUNT][2];
    for (int i = 0; i < COUNT; i++) {
        CHECK(pipe(lines[i]) == 0);
        CHECK((children[i] = fork()) >= 0);
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
