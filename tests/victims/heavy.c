/* Takes its time to end: threads that write all over much memory, and children with as much. It says that it is there by a
 * file named `waiting`, and runs until it is killed or a file named `gate` appears.
 *
 * usage: heavy MEGABYTES THREADS CHILDREN */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

static unsigned char *memory;
static size_t bytes;
static const struct timespec a_while = {0, 1000000};

static void fill(void)
{
    memory = malloc(bytes);
    CHECK(memory);
    memset(memory, 1, bytes);
}

static void *writer(void *place)
{
    for (size_t at = (size_t)place; bytes > 0; at += 4096 * 17) {
        memory[at % bytes]++;
        nanosleep(&a_while, NULL);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    CHECK(count == 4);
    bytes = (size_t)atol(arguments[1]) << 20;
    int ready[2];
    CHECK(pipe(ready) == 0);
    for (long child = 0; child < atol(arguments[3]); child++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            fill();
            CHECK(write(ready[1], "", 1) == 1);
            for (;;)
                pause();
        }
    }
    for (long child = 0; child < atol(arguments[3]); child++) {
        char byte;
        CHECK(read(ready[0], &byte, 1) == 1);
    }
    fill();
    for (size_t number = 0; number < (size_t)atol(arguments[2]); number++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, writer, (void *)(number * 4096)) == 0);
    }
    CHECK(close(creat("waiting", 0600)) == 0);
    while (access("gate", F_OK) != 0)
        nanosleep(&a_while, NULL);
    /* The children too. */
    return kill(0, SIGKILL);
}
