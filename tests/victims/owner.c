/* Remembers its process and thread ids, holds a recursive mutex across its gate, and checks afterwards that all is as it
 * was: its own ids, the C library's idea of them, and whose the mutex is. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

static pthread_mutex_t mutex;
static const struct timespec a_while = {0, 500000};

static void wait_at_gate(void)
{
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    while (access("gate", F_OK) != 0)
        CHECK(nanosleep(&a_while, NULL) == 0);
}

/* Nobody else may have it. */
static void *try_in_vain(void *unused)
{
    (void)unused;
    CHECK(pthread_mutex_trylock(&mutex) == EBUSY);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_mutexattr_t recursive;
    pthread_t thread;
    pid_t pid = getpid(), tid = (pid_t)syscall(SYS_gettid);
    int holds = argc > 1 && strcmp(argv[1], "hold") == 0;
    CHECK(pthread_mutexattr_init(&recursive) == 0);
    CHECK(pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE) == 0);
    CHECK(pthread_mutex_init(&mutex, &recursive) == 0);
    CHECK(!holds || pthread_mutex_lock(&mutex) == 0);
    wait_at_gate();
    if (holds) {
        CHECK(getpid() == pid && syscall(SYS_gettid) == tid && gettid() == tid);
        CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
        CHECK(pthread_create(&thread, NULL, try_in_vain, NULL) == 0 && pthread_join(thread, NULL) == 0);
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_kill(pthread_self(), 0) == 0 && raise(0) == 0);
    puts("owner: all as it was");
    return 0;
}
