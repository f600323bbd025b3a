/* One thread makes a child by vfork that executes no program before a file named `gate` appears: until then the kernel lets
 * nobody stop the thread. Another one counts meanwhile, into the file `count`. With the argument `again` the first makes one child
 * after the other until a file `end` appears, and each lives for 400 ms. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

static const struct timespec a_while = {0, 1000000};

static void *parent(void *unused)
{
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        close(open("waiting", O_WRONLY | O_CREAT, 0600));
        while (access("gate", F_OK) != 0)
            nanosleep(&a_while, NULL);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    return unused;
}

static void *parent_of_many(void *unused)
{
    static const struct timespec lifetime = {0, 400000000};
    close(open("waiting", O_WRONLY | O_CREAT, 0600));
    while (access("end", F_OK) != 0) {
        pid_t child = vfork();
        CHECK(child >= 0);
        if (child == 0) {
            nanosleep(&lifetime, NULL);
            _exit(0);
        }
        CHECK(waitpid(child, NULL, 0) == child);
    }
    return unused;
}

int main(int argc, char **argv)
{
    int again = argc == 2 && strcmp(argv[1], "again") == 0;
    pthread_t thread;
    int file = open("count", O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0);
    CHECK(pthread_create(&thread, NULL, again ? parent_of_many : parent, NULL) == 0);
    for (uint64_t count = 0; access("end", F_OK) != 0; count++) {
        CHECK(pwrite(file, &count, sizeof count, 0) == sizeof count);
        nanosleep(&a_while, NULL);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
