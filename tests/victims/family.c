/* A tree of processes, for measurements: as many as the first argument says, children of one parent, each of which goes
 * on changing its own half megabyte. When there is a file named `gate` they end, and each one's memory must be right.
 * `waiting` tells that all of them are there. */
#include "check.h"
#include <fcntl.h>
#include <sys/wait.h>

enum { BYTES = 1 << 19, PAGE = 4096 };

/* Changes every page now and then; the last number must stand in all of them. */
static int live(unsigned char *memory)
{
    unsigned char turn = 0;
    while (access("gate", F_OK) != 0) {
        turn++;
        for (int at = 0; at < BYTES; at += PAGE)
            memory[at] = turn;
        usleep(100000);
    }
    for (int at = 0; at < BYTES; at += PAGE)
        CHECK(memory[at] == turn);
    return 0;
}

int main(int argc, char **argv)
{
    long processes = amount(argc, argv, 10);
    unsigned char *memory = malloc(BYTES);
    CHECK(memory != NULL);
    for (long made = 1; made < processes; made++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            return live(memory);
    }
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    live(memory);
    for (long made = 1; made < processes; made++) {
        int status;
        CHECK(wait(&status) > 0 && status == 0);
    }
    printf("family: %ld\n", processes);
    return 0;
}
