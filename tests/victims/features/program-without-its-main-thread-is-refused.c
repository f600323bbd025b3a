/* A program whose main thread has ended while others go on is refused by name.
 *
 * expect: refuse "main thread has ended"
 */
#include "check.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>

static pid_t first;

static void *thread(void *unused)
{
    char path[64], text[256];
    (void)unused;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", first);
    for (char *state = NULL; state == NULL || state[2] != 'Z';) {
        FILE *file = fopen(path, "r");
        CHECK(file != NULL && fgets(text, sizeof text, file) != NULL && fclose(file) == 0);
        state = strrchr(text, ')');
    }
    moment("leaderless");
    puts("the last thread ends the program");
    exit(0);
}

int main(void)
{
    pthread_t other;
    first = gettid();
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    pthread_exit(NULL);
}
