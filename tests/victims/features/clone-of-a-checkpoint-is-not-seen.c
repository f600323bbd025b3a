/* The clones from which a checkpoint is read are nobody's children to the program: neither the main process nor a child of
 * its own is told of them, finds them when it waits, or is kept waiting by what they hold.
 *
 * expect: survive
 * run: --snapshot fork
 */
#include "check.h"
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { BYTES = 8 << 20 };

static volatile sig_atomic_t told;
static volatile int done;
static unsigned char *memory;

static void on_child(int signal)
{
    (void)signal;
    told++;
}

/* Whoever has no children is to find none. */
static void look(void)
{
    char path[64], text[64];
    CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD);
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fgets(text, sizeof text, file) == NULL);
    CHECK(fclose(file) == 0);
    CHECK(told == 0);
}

/* Reports whether another process has the pipe behind `end` in its table of descriptors. */
static int is_held_elsewhere(int end)
{
    char pattern[64], path[512], link[64], own[64];
    glob_t found;
    snprintf(path, sizeof path, "/proc/self/fd/%d", end);
    ssize_t length = readlink(path, own, sizeof own);
    CHECK(length > 0);
    snprintf(pattern, sizeof pattern, "/proc/%d/", getpid());
    CHECK(glob("/proc/[0-9]*/fd/*", GLOB_NOSORT, NULL, &found) == 0);
    int holders = 0;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (strncmp(found.gl_pathv[i], pattern, strlen(pattern)) != 0)
            holders += readlink(found.gl_pathv[i], link, sizeof link) == length && memcmp(link, own, length) == 0;
    globfree(&found);
    return holders;
}

static long microseconds(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Returns when this thread has been halted, perhaps by a checkpoint: then its clone begins to live. */
static void await_halt(void)
{
    long begun = microseconds(), last = begun, now = begun;
    for (; now - last < 1000 && now - begun < 20000; now = microseconds())
        last = now;
}

/* The end of a pipe comes when its last writer closes it. Only who reads /proc/PID/fd at that instant can delay it. */
static void await_end(int reader)
{
    struct pollfd end = {.fd = reader, .events = POLLIN};
    CHECK(poll(&end, 1, 0) == 1 || (!is_held_elsewhere(reader) && poll(&end, 1, 10000) == 1));
    CHECK(end.revents == POLLHUP);
}

static void *watch(void *unused)
{
    while (!done) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        await_halt();
        CHECK(close(ends[1]) == 0);
        await_end(ends[0]);
        CHECK(close(ends[0]) == 0);
        look();
        for (size_t i = 0; i < BYTES; i += 4096)
            memory[i]++;
    }
    return unused;
}

static void count(const char *who)
{
    pthread_t watcher;
    char word;
    memory = malloc(BYTES);
    CHECK(memory != NULL);
    memset(memory, 1, BYTES);
    CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
    if (*who == 'p')
        for (int life = 0; life < 2; life++)
            moment("watched");
    else
        CHECK(read(0, &word, 1) == 0);
    done = 1;
    CHECK(pthread_join(watcher, NULL) == 0);
    for (size_t i = 0; i < BYTES; i++)
        CHECK(memory[i] == (i % 4096 == 0 ? memory[0] : 1));
}

int main(void)
{
    int ends[2], status;
    CHECK(signal(SIGCHLD, on_child) != SIG_ERR && pipe(ends) == 0);
    /* The parent of this one belongs to the job: its clone comes another way. */
    pid_t middle = fork();
    CHECK(middle >= 0);
    if (middle == 0) {
        CHECK(dup2(ends[0], 0) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
        count("child");
        _exit(7);
    }
    CHECK(close(ends[0]) == 0);
    for (int life = 0; life < 2; life++) {
        moment("of two");
        CHECK(told == 0 && waitpid(-1, NULL, WNOHANG | __WALL) == 0);
    }
    CHECK(close(ends[1]) == 0);
    CHECK(waitpid(middle, &status, 0) == middle && WEXITSTATUS(status) == 7);
    CHECK(told == 1);
    told = 0;
    count("parent");
    puts("alone");
    return 0;
}
