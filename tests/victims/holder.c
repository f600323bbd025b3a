/* Holds one thing that cannot be carried over, named by its argument, until a file named `gate` appears; then lets it go
 * and ends well. */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

static void wait_at_gate(void)
{
    const struct timespec moment = {0, 1000000};
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    while (access("gate", F_OK) != 0)
        CHECK(nanosleep(&moment, NULL) == 0);
}

static void hold_child(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execlp("sleep", "sleep", "60", NULL);
        _exit(127);
    }
    wait_at_gate();
    int status;
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);
}

static void hold_tcp(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listening >= 0 && bind(listening, (struct sockaddr *)&here, sizeof here) == 0 && listen(listening, 1) == 0);
    wait_at_gate();
    CHECK(close(listening) == 0);
}

static void hold_timer(void)
{
    struct itimerspec soon = {.it_value = {.tv_sec = 1000}};
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(timer >= 0 && timerfd_settime(timer, 0, &soon, NULL) == 0);
    wait_at_gate();
    CHECK(timerfd_gettime(timer, &soon) == 0 && soon.it_value.tv_sec > 100 && close(timer) == 0);
}

static void hold_userfault(void)
{
    /* UFFD_USER_MODE_ONLY, which needs no privilege. */
    int faults = (int)syscall(SYS_userfaultfd, 1);
    CHECK(faults >= 0);
    wait_at_gate();
    CHECK(close(faults) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (strcmp(argv[1], "child") == 0)
        hold_child();
    else if (strcmp(argv[1], "tcp") == 0)
        hold_tcp();
    else if (strcmp(argv[1], "timer") == 0)
        hold_timer();
    else if (strcmp(argv[1], "userfault") == 0)
        hold_userfault();
    else
        CHECK(!"a known thing to hold");
    printf("holder: let go of %s\n", argv[1]);
    return 0;
}
