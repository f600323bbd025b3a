/* Executes a victim among short-lived processes of its job, hundreds in a second: crowd PROGRAM. They descend from a process
 * that is nobody's child, in a process group of its own, and ends when the victim has ended. */
#include "family.h"
#include <sys/resource.h>

extern char **environ;

static void live_briefly(uint64_t kind)
{
    char *nothing[] = {"true", NULL};
    switch (kind % 5) {
    case 0:
        execve("/bin/true", nothing, environ);
        _exit(9);
    case 1:
        if (fork() == 0)
            usleep(2000);
        _exit(0);
    case 2:
        usleep(1000);
        _exit(3);
    case 3:
        if (vfork() == 0)
            execve("/bin/true", nothing, environ);
        _exit(4);
    default:
        raise(SIGKILL);
    }
}

static void crowd(pid_t victim)
{
    uint64_t seed = (uint64_t)victim;
    int nowhere = open("/dev/null", O_RDWR);
    CHECK(nowhere >= 0 && setpgid(0, 0) == 0);
    for (int stream = 0; stream < 3; stream++)
        CHECK(dup2(nowhere, stream) == stream);
    CHECK(close_range(3, ~0u, 0) == 0 && setpriority(PRIO_PROCESS, 0, 5) == 0);
    while (kill(victim, 0) == 0) {
        for (int more = 0; more < 8; more++)
            if (fork() == 0)
                live_briefly(next_number(&seed) + more);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
        usleep(10000);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    pid_t victim = getpid(), middle = fork();
    if (middle == 0) {
        if (fork() == 0)
            crowd(victim);
        _exit(0);
    }
    reap(middle, 0);
    execv(argv[1], argv + 1);
    CHECK(!"the victim can be executed");
}
