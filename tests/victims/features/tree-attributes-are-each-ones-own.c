/* Working directory, umask, limits, priority, name, signal mask and dispositions differ from process to process.
 *
 * expect: survive
 */
#include "family.h"
#include <sys/resource.h>

enum { COUNT = 4 };

static void on_signal(int signal)
{
    (void)signal;
}

static void differ(int number, int check)
{
    static const char *folders[COUNT] = {"/", "/usr", "/tmp", "/etc"};
    char name[32], found[256];
    struct rlimit limit;
    struct sigaction action;
    sigset_t set;
    snprintf(name, sizeof name, "number %d", number);
    if (!check) {
        CHECK(chdir(folders[number]) == 0);
        umask(number);
        CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
        limit.rlim_cur = (1 + number) << 20;
        CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
        CHECK(setpriority(PRIO_PROCESS, 0, 2 * number + 1) == 0);
        CHECK(prctl(PR_SET_NAME, name) == 0);
        CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGRTMIN + number) == 0);
        CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
        CHECK(signal(SIGRTMIN + number, number % 2 ? SIG_IGN : on_signal) != SIG_ERR);
        return;
    }
    CHECK(getcwd(found, sizeof found) == found && strcmp(found, folders[number]) == 0);
    CHECK(umask(number) == (mode_t)number);
    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur == (rlim_t)(1 + number) << 20);
    CHECK(getpriority(PRIO_PROCESS, 0) == 2 * number + 1);
    CHECK(prctl(PR_GET_NAME, found) == 0 && strcmp(found, name) == 0);
    CHECK(sigprocmask(SIG_SETMASK, NULL, &set) == 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK(sigismember(&set, SIGRTMIN + i) == (i == number));
        CHECK(sigaction(SIGRTMIN + i, NULL, &action) == 0);
        CHECK(action.sa_handler == (i != number ? SIG_DFL : i % 2 ? SIG_IGN : on_signal));
    }
}

int main(void)
{
    struct line line;
    pid_t children[COUNT];
    open_line(&line);
    for (int i = 0; i < COUNT; i++) {
        CHECK((children[i] = fork()) >= 0);
        if (children[i] == 0) {
            be_child(&line);
            differ(i, 0);
            for (int word; read(line.down[0], &word, sizeof word) == sizeof word;)
                _exit(99);
            differ(i, 1);
            _exit(i);
        }
    }
    be_parent(&line);
    for (int i = 0; i < COUNT; i++)
        await_call_of(children[i], SYS_read);
    moment("different");
    moment("again");
    CHECK(close(line.down[1]) == 0);
    for (int i = 0; i < COUNT; i++)
        reap(children[i], i);
    puts("each its own");
    return 0;
}
