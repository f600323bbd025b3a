/* Loops that a supervisor could slow down: malloc, open, fork and exec. Prints the nanoseconds that the loop took. */
#include "check.h"
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>

static void allocate(long rounds)
{
    enum { KEPT = 256 };
    static void *kept[KEPT];
    uint64_t random = 1;
    for (long i = 0; i < rounds * 200; i++) {
        uint64_t r = next_number(&random);
        free(kept[r % KEPT]);
        kept[r % KEPT] = malloc(16 + (r >> 8) % 2000);
        CHECK(kept[r % KEPT] != NULL);
        *(volatile char *)kept[r % KEPT] = 1;
    }
}

static void open_and_close(long rounds)
{
    for (long i = 0; i < rounds * 5; i++) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0 && close(fd) == 0);
    }
}

static void fork_and_exec(long rounds)
{
    for (long i = 0; i < rounds / 200 + 1; i++) {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            execl("/bin/true", "true", NULL);
            _exit(127);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

int main(int argc, char **argv)
{
    struct timespec begin, end;
    CHECK(argc == 3);
    long rounds = atol(argv[2]);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &begin) == 0);
    if (strcmp(argv[1], "malloc") == 0)
        allocate(rounds);
    else if (strcmp(argv[1], "open") == 0)
        open_and_close(rounds);
    else if (strcmp(argv[1], "spawn") == 0)
        fork_and_exec(rounds);
    else
        CHECK(!"a known loop");
    CHECK(clock_gettime(CLOCK_MONOTONIC, &end) == 0);
    printf("%ld\n", (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec);
    return 0;
}
