/* One thread makes a child by vfork that executes no program before a file named `gate` appears: until then the kernel lets
 * nobody stop the thread. Another one counts meanwhile, into the file `count`. */
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

int main(void)
{
    pthread_t thread;
    int file = open("count", O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0);
    CHECK(pthread_create(&thread, NULL, parent, NULL) == 0);
    for (uint64_t count = 0; access("end", F_OK) != 0; count++) {
        CHECK(pwrite(file, &count, sizeof count, 0) == sizeof count);
        nanosleep(&a_while, NULL);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
