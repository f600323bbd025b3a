/* Signal-driven I/O (O_ASYNC, F_SETOWN, F_SETSIG) goes on: the same signal comes when a pipe or socket becomes
 * ready, for a process, a thread or a process group. None comes for a pipe that ended before, though another process has it
 * too. None comes for what was in flight in a terminal, on either side.
 *
 * expect: survive
 */
#include "terminal.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

static volatile int told, from, told_by_terminal;

static void tell_of_terminal(int number)
{
    (void)number;
    told_by_terminal++;
}

static void tell(int number, siginfo_t *information, void *context)
{
    (void)context;
    CHECK(number == SIGRTMIN + 3);
    from = information->si_fd;
    told++;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = gettid()}, now;
    int pipe_[2], pair[2], group[2], ended[2];
    char room[8];
    /* It leads one already where it is run under protection. */
    CHECK(setpgid(0, 0) == 0);
    CHECK(sigaction(SIGRTMIN + 3, &action, NULL) == 0 && pipe(pipe_) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(pipe(group) == 0);
    int listened[3] = {pipe_[0], pair[0], group[0]}, written[3] = {pipe_[1], pair[1], group[1]};
    CHECK(fcntl(group[0], F_SETOWN, -getpgrp()) == 0);
    CHECK(fcntl(listened[0], F_SETOWN, getpid()) == 0 && fcntl(listened[1], F_SETOWN_EX, &owner) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK(fcntl(listened[i], F_SETSIG, SIGRTMIN + 3) == 0);
        CHECK(fcntl(listened[i], F_SETFL, fcntl(listened[i], F_GETFL) | O_ASYNC) == 0);
    }
    CHECK(pipe(ended) == 0 && close(ended[1]) == 0);
    CHECK(fcntl(ended[0], F_SETOWN, getpid()) == 0 && fcntl(ended[0], F_SETSIG, SIGRTMIN + 3) == 0);
    CHECK(fcntl(ended[0], F_SETFL, O_ASYNC) == 0);
    int sides[2];
    struct sigaction of_terminal = {.sa_handler = tell_of_terminal, .sa_flags = SA_RESTART};
    open_terminal(&sides[0], &sides[1], 0);
    say(sides[0], "typed");
    say(sides[1], "shown");
    for (int i = 0; i < 2; i++) {
        struct pollfd arrived = {sides[i], POLLIN, 0};
        CHECK(poll(&arrived, 1, 30000) == 1);
    }
    CHECK(sigaction(SIGRTMIN + 4, &of_terminal, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(fcntl(sides[i], F_SETOWN, getpid()) == 0 && fcntl(sides[i], F_SETSIG, SIGRTMIN + 4) == 0);
        CHECK(fcntl(sides[i], F_SETFL, fcntl(sides[i], F_GETFL) | O_ASYNC) == 0);
    }
    pid_t other = fork();
    CHECK(other >= 0);
    while (other == 0)
        pause();
    moment("set");
    CHECK(told == 0 && told_by_terminal == 0);
    hear(sides[0], "shown");
    hear(sides[1], "typed");
    say(sides[0], "!");
    await(&told_by_terminal);
    hear_soon(sides[1], "!");
    CHECK(fcntl(sides[1], F_GETOWN) == getpid() && fcntl(sides[1], F_GETSIG) == SIGRTMIN + 4);
    for (int i = 0; i < 3; i++) {
        told = 0;
        CHECK(write(written[i], "x", 1) == 1);
        await(&told);
        CHECK(from == listened[i] && read(listened[i], room, 1) == 1);
    }
    CHECK(fcntl(listened[0], F_GETOWN) == getpid() && fcntl(listened[1], F_GETOWN_EX, &now) == 0);
    CHECK(now.type == F_OWNER_TID && now.pid == gettid() && fcntl(listened[0], F_GETSIG) == SIGRTMIN + 3);
    CHECK(fcntl(group[0], F_GETOWN) == -getpgrp());
    CHECK(kill(other, SIGKILL) == 0 && waitpid(other, NULL, 0) == other);
    puts("told");
    return 0;
}
