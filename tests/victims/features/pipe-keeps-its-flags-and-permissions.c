/* A pipe keeps what fcntl and fstat tell of its ends: flags, permissions, who is to be told of events and by which signal,
 * also where nobody is told yet (no O_ASYNC).
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <signal.h>

struct told {
    int flags, owner, signal;
    mode_t mode;
};

static struct told look(int end)
{
    struct stat status;
    CHECK(fstat(end, &status) == 0);
    return (struct told){fcntl(end, F_GETFL), fcntl(end, F_GETOWN), fcntl(end, F_GETSIG), status.st_mode};
}

static volatile int told;

static void tell(int number)
{
    (void)number;
    told++;
}

int main(void)
{
    enum { PIPES = 4 };
    int ends[PIPES][2];
    struct told before[PIPES][2];
    char path[64];
    CHECK(signal(SIGUSR2, tell) != SIG_ERR);
    CHECK(pipe(ends[0]) == 0 && pipe2(ends[1], O_NONBLOCK) == 0 && pipe2(ends[2], O_DIRECT) == 0);
    CHECK(fcntl(ends[0][0], F_SETOWN, getpid()) == 0 && fcntl(ends[0][0], F_SETSIG, SIGUSR2) == 0);
    CHECK(fcntl(ends[0][1], F_SETSIG, SIGUSR1) == 0 && fcntl(ends[1][1], F_SETFL, O_APPEND) == 0);
    CHECK(fchmod(ends[1][0], 0640) == 0);
    /* One end made by pipe(2), and one opened through /proc. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0][0]);
    CHECK((ends[3][0] = open(path, O_RDONLY | O_NONBLOCK)) >= 0 && (ends[3][1] = dup(ends[0][1])) >= 0);
    for (int i = 0; i < PIPES; i++)
        for (int j = 0; j < 2; j++)
            before[i][j] = look(ends[i][j]);
    moment("set");
    for (int i = 0; i < PIPES; i++)
        for (int j = 0; j < 2; j++) {
            struct told now = look(ends[i][j]);
            CHECK(now.flags == before[i][j].flags);
            CHECK(now.owner == before[i][j].owner && now.signal == before[i][j].signal);
            CHECK(now.mode == before[i][j].mode);
        }
    CHECK(fcntl(ends[0][0], F_SETFL, O_ASYNC) == 0 && write(ends[0][1], "x", 1) == 1);
    await(&told);
    puts("as it was");
    return 0;
}
