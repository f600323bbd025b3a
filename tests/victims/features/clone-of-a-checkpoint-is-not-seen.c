/* The clones from which a checkpoint is read are nobody's children to the program: neither the main process nor a child of
 * its own is told of them, finds them when it waits, or is kept waiting by what they hold.
 *
 * expect: survive
 * run: --snapshot fork
 */
#include "check.h"
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

static void *watch(void *unused)
{
    while (!done) {
        /* The end of a pipe comes when this process closes it, since nobody else holds it. */
        int ends[2];
        struct pollfd end = {.events = POLLIN};
        CHECK(pipe(ends) == 0);
        usleep(300);
        CHECK(close(ends[1]) == 0);
        end.fd = ends[0];
        CHECK(poll(&end, 1, 0) == 1 && end.revents == POLLHUP);
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
