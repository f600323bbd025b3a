/* A child that has chosen another execution domain than its parent, and has not executed a program since, keeps it.
 *
 * expect: survive
 */
#include "family.h"
#include <sys/personality.h>

enum { ASK = -1 };

int main(void)
{
    struct line line;
    int before = personality(ASK), chosen = before ^ (ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC);
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        CHECK(personality(chosen) == before);
        put(line.up[1], 1);
        await_silence(line.down[0]);
        CHECK(personality(ASK) == chosen);
        _exit(3);
    }
    be_parent(&line);
    CHECK(get(line.up[0]) == 1);
    moment("chosen");
    CHECK(personality(ASK) == before);
    moment("chosen again");
    CHECK(close(line.down[1]) == 0);
    reap(child, 3);
    puts("kept");
    return 0;
}
