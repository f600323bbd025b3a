/* What a supervisor must pass through, one act per argument: an exit status, a death by signal, the environment, stdin,
 * the terminal, signals from outside. */
#include "check.h"
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

static volatile sig_atomic_t last_signal;

static void note(int signal)
{
    last_signal = signal;
}

/* Says `ready`, then names each signal that comes, until SIGUSR2. */
static int name_signals(void)
{
    static const int wanted[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGWINCH, SIGCONT};
    sigset_t all, none;
    struct sigaction action = {.sa_handler = note};
    CHECK(sigfillset(&all) == 0 && sigemptyset(&none) == 0 && sigprocmask(SIG_SETMASK, &all, NULL) == 0);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        CHECK(sigaction(wanted[i], &action, NULL) == 0);
    dprintf(1, "ready\n");
    while (last_signal != SIGUSR2) {
        CHECK(sigsuspend(&none) == -1 && errno == EINTR);
        dprintf(1, "signal %s\n", sigabbrev_np(last_signal));
    }
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    if (strcmp(argv[1], "exit") == 0)
        return atoi(argv[2]);
    if (strcmp(argv[1], "die") == 0) {
        struct rlimit none = {0, 0};
        CHECK(setrlimit(RLIMIT_CORE, &none) == 0 && raise(atoi(argv[2])) == 0);
        return 9;
    }
    if (strcmp(argv[1], "terminal") == 0) {
        for (int fd = 0; fd < 3; fd++)
            CHECK(isatty(fd));
        CHECK(tcgetpgrp(0) == getpgrp());
        return name_signals();
    }
    CHECK(strcmp(argv[1], "signals") == 0);
    return name_signals();
}
