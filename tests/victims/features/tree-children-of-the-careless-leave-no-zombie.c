/* A parent that does not care how its children end (SA_NOCLDWAIT, or SIGCHLD ignored) finds no zombies of them, and those
 * that it had before it stopped caring.
 *
 * expect: survive
 */
#include "family.h"

static volatile sig_atomic_t news;

static void on_news(int signal)
{
    (void)signal;
    news++;
}

static pid_t child_at(int from, int unused)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(unused) == 0);
        await_silence(from);
        _exit(1);
    }
    return child;
}

int main(void)
{
    int one[2], two[2];
    struct sigaction action = {.sa_handler = on_news, .sa_flags = SA_NOCLDWAIT | SA_RESTART};
    CHECK(pipe(one) == 0);
    pid_t early = fork();
    CHECK(early >= 0);
    if (early == 0)
        _exit(9);
    await_state(early, 'Z');
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    pid_t careless = child_at(one[0], one[1]);
    moment("does not care");
    reap(early, 9);
    CHECK(close(one[1]) == 0);
    CHECK(waitpid(careless, NULL, 0) == -1 && errno == ECHILD && news == 1);
    CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    CHECK(pipe(two) == 0);
    pid_t ignored = child_at(two[0], two[1]);
    moment("ignores");
    CHECK(close(two[1]) == 0);
    CHECK(waitpid(ignored, NULL, 0) == -1 && errno == ECHILD && news == 1);
    puts("no zombies");
    return 0;
}
