/* A program with pidfds of its two threads: a signal sent by one reaches that thread, and the pidfd becomes readable when the thread ends. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

/* PIDFD_THREAD is O_EXCL. */
#define THREAD O_EXCL

static int handle[2];
static int announced[2];

static void *other(void *nothing)
{
    sigset_t usr1;
    int heard = 0;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    handle[1] = (int)syscall(SYS_pidfd_open, gettid(), THREAD);
    CHECK(write(announced[1], "!", 1) == 1);
    CHECK(sigwait(&usr1, &heard) == 0 && heard == SIGUSR1);
    return nothing;
}

int main(void)
{
    char told;
    sigset_t usr1;
    pthread_t thread;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &usr1, NULL) == 0 && pipe(announced) == 0);
    handle[0] = (int)syscall(SYS_pidfd_open, gettid(), THREAD);
    if (handle[0] < 0)
        LACKS("pidfds of threads");
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0 && read(announced[0], &told, 1) == 1 && handle[1] >= 0);
    moment("both held");
    struct pollfd alive[] = {{.fd = handle[0], .events = POLLIN}, {.fd = handle[1], .events = POLLIN}};
    CHECK(poll(alive, 2, 0) == 0);
    CHECK(syscall(SYS_pidfd_send_signal, handle[1], SIGUSR1, NULL, 0) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(poll(alive, 2, -1) == 1 && alive[1].revents != 0);
    CHECK(close(handle[1]) == 0);
    /* Blocked, and pending for this thread alone. */
    CHECK(syscall(SYS_pidfd_send_signal, handle[0], SIGUSR1, NULL, 0) == 0);
    moment("one sent");
    CHECK(sigpending(&usr1) == 0 && sigismember(&usr1, SIGUSR1));
    puts("each was told for itself");
    return 0;
}
