/* A stopped child stays stopped, its parent is not told again what it knows, and it goes on when it is told to.
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

int main(void)
{
    struct line line;
    int status, word;
    struct sigaction action = {.sa_handler = on_news, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        while (read(line.down[0], &word, sizeof word) == sizeof word)
            put(line.up[1], word + 1);
        _exit(0);
    }
    be_parent(&line);
    for (int round = 0; round < 2; round++) {
        news = 0;
        CHECK(kill(child, SIGSTOP) == 0);
        CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        /* The kernel lets the wait return before it sends the signal. */
        while (news == 0)
            usleep(100);
        CHECK(news == 1);
        put(line.down[1], round);
        moment("stopped");
        await_state(child, 'T');
        CHECK(news == 1);
        CHECK(waitpid(child, &status, WUNTRACED | WCONTINUED | WNOHANG) == 0);
        CHECK(kill(child, SIGCONT) == 0);
        CHECK(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
        CHECK(get(line.up[0]) == round + 1);
        moment("continued");
        CHECK(waitpid(child, &status, WUNTRACED | WCONTINUED | WNOHANG) == 0 && news == 2);
    }
    CHECK(close(line.down[1]) == 0);
    reap(child, 0);
    puts("stopped and went on");
    return 0;
}
