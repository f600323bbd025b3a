/* Signal handlers that are under way, one within the other, return one by one after a restart, masks and errno restored.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>

static char order[16];
static int entered;

static int is_blocked(int signal)
{
    sigset_t now;
    CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0);
    return sigismember(&now, signal);
}

static void inner(int signal, siginfo_t *info, void *context)
{
    (void)context;
    order[entered++] = 'i';
    CHECK(is_blocked(SIGUSR1) && is_blocked(SIGUSR2) && is_blocked(SIGHUP) && info->si_signo == signal);
    moment("in the inner handler");
    CHECK(is_blocked(SIGUSR1) && is_blocked(SIGUSR2) && is_blocked(SIGHUP) && info->si_signo == SIGUSR2);
    order[entered++] = 'I';
}

static void outer(int signal)
{
    volatile double keeps = 1.5 + signal;
    order[entered++] = 'o';
    CHECK(is_blocked(SIGUSR1) && !is_blocked(SIGUSR2));
    CHECK(raise(SIGUSR2) == 0 && keeps == 1.5 + signal);
    CHECK(is_blocked(SIGUSR1) && !is_blocked(SIGUSR2) && !is_blocked(SIGHUP));
    moment("back in the outer handler");
    order[entered++] = 'O';
}

int main(void)
{
    struct sigaction first = {.sa_handler = outer};
    struct sigaction second = {.sa_sigaction = inner, .sa_flags = SA_SIGINFO};
    CHECK(sigaddset(&second.sa_mask, SIGHUP) == 0);
    CHECK(sigaction(SIGUSR1, &first, NULL) == 0 && sigaction(SIGUSR2, &second, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0);
    CHECK(!is_blocked(SIGUSR1) && !is_blocked(SIGUSR2) && !is_blocked(SIGHUP));
    CHECK(strcmp(order, "oiIO") == 0);
    puts(order);
    return 0;
}
