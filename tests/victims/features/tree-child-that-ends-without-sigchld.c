/* A child that tells its end by another signal than SIGCHLD, or by none, still does after a restart.
 *
 * expect: survive
 */
#include "family.h"

static volatile sig_atomic_t usual, unusual;

static void on_signal(int signal)
{
    if (signal == SIGCHLD)
        usual++;
    else
        unusual++;
}

static pid_t make(int signal, int ends[2])
{
    pid_t child = syscall(SYS_clone, signal, NULL, NULL, NULL, NULL);
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(ends[1]) == 0);
        await_silence(ends[0]);
        _exit(8);
    }
    return child;
}

int main(void)
{
    int status, ends[2][2];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0);
    CHECK(pipe(ends[0]) == 0);
    pid_t loud = make(SIGUSR2, ends[0]);
    CHECK(pipe(ends[1]) == 0);
    pid_t silent = make(0, ends[1]);
    moment("both run");
    CHECK(waitpid(loud, &status, 0) == -1 && errno == ECHILD);
    CHECK(close(ends[0][1]) == 0);
    /* The silent one holds a copy of the first pipe. */
    CHECK(close(ends[1][1]) == 0);
    CHECK(waitpid(silent, &status, __WCLONE) == silent && WEXITSTATUS(status) == 8);
    while (!unusual)
        usleep(200);
    moment("one is a zombie");
    CHECK(waitpid(loud, &status, 0) == -1 && errno == ECHILD);
    CHECK(waitpid(loud, &status, __WALL) == loud && WEXITSTATUS(status) == 8);
    CHECK(usual == 0 && unusual == 1);
    puts("told otherwise");
    return 0;
}
