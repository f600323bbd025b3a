/* Children keep their process groups: their own, that of a sibling, that of their parent.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    enum { COUNT = 6 };
    pid_t children[COUNT];
    struct line line;
    open_line(&line);
    for (int i = 0; i < COUNT; i++) {
        CHECK((children[i] = fork()) >= 0);
        if (children[i] == 0) {
            be_child(&line);
            await_silence(line.down[0]);
            _exit(i);
        }
    }
    /* 0 and 3 lead, the next ones follow. */
    for (int i = 0; i < COUNT - 1; i++)
        CHECK(setpgid(children[i], children[i / 3 * 3]) == 0);
    for (int round = 0; round < 2; round++) {
        moment("grouped");
        for (int i = 0; i < COUNT - 1; i++)
            CHECK(getpgid(children[i]) == children[i / 3 * 3]);
        CHECK(getpgid(children[COUNT - 1]) == getpgrp());
        CHECK(getsid(children[0]) == getsid(0));
        if (round == 0)
            CHECK(setpgid(children[4], children[4]) == 0 && setpgid(children[4], children[3]) == 0);
    }
    CHECK(close(line.down[1]) == 0);
    for (int i = 0; i < COUNT; i++)
        reap(children[i], i);
    puts("groups kept");
    return 0;
}
