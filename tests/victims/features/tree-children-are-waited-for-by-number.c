/* Ids that a parent has kept are those of its children after a restart: waited for in any order, and asked about.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    enum { COUNT = 12 };
    pid_t children[COUNT];
    int ends[2], order[COUNT];
    uint64_t seed = 3;
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < COUNT; i++) {
        order[i] = i;
        CHECK((children[i] = fork()) >= 0);
        if (children[i] == 0) {
            CHECK(close(ends[1]) == 0);
            await_silence(ends[0]);
            _exit(i);
        }
    }
    for (int i = COUNT - 1; i > 0; i--) {
        int other = next_number(&seed) % (i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    moment("all run");
    CHECK(waitpid(children[5], NULL, WNOHANG) == 0 && kill(children[7], 0) == 0);
    CHECK(close(ends[1]) == 0);
    for (int i = 0; i < COUNT; i++) {
        if (i == COUNT / 2) {
            /* Those that are left have ended too. */
            for (int rest = i; rest < COUNT; rest++)
                await_state(children[order[rest]], 'Z');
            moment("half are gone");
        }
        reap(children[order[i]], order[i]);
    }
    puts("all found");
    return 0;
}
