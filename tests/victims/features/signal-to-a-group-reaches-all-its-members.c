/* kill(0) and killpg reach every member of the group and nobody else, after a restart as before.
 *
 * expect: survive
 */
#include "family.h"

static volatile sig_atomic_t heard;

static void on_signal(int signal)
{
    (void)signal;
    heard++;
}

int main(void)
{
    enum { MEMBERS = 3 };
    struct line line;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    open_line(&line);
    pid_t leader = fork();
    CHECK(leader >= 0);
    if (leader == 0) {
        int *counts = share(4096);
        pid_t members[MEMBERS];
        be_child(&line);
        CHECK(setpgid(0, 0) == 0);
        for (int i = 0; i < MEMBERS; i++) {
            CHECK((members[i] = fork()) >= 0);
            if (members[i] == 0)
                for (;;) {
                    counts[i] = heard;
                    usleep(200);
                }
        }
        for (int word; read(line.down[0], &word, sizeof word) == sizeof word;) {
            CHECK(kill(0, SIGUSR1) == 0);
            for (int i = 0; i < MEMBERS; i++)
                while (((volatile int *)counts)[i] != word)
                    usleep(200);
            CHECK(heard == word);
            put(line.up[1], word);
        }
        for (int i = 0; i < MEMBERS; i++) {
            CHECK(kill(members[i], SIGKILL) == 0);
            reap_killed(members[i], SIGKILL);
        }
        _exit(0);
    }
    be_parent(&line);
    for (int round = 1; round <= 3; round++) {
        moment("quiet");
        put(line.down[1], round);
        CHECK(get(line.up[0]) == round && heard == 0);
    }
    CHECK(close(line.down[1]) == 0);
    reap(leader, 0);
    puts("all heard");
    return 0;
}
