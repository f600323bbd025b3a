/* A child whose main thread has ended while another one goes on is refused.
 *
 * expect: refuse "main thread"
 */
#include "family.h"
#include <pthread.h>

static struct line line;

static void *rest(void *unused)
{
    (void)unused;
    await_state(getpid(), 'Z');
    put(line.up[1], 1);
    await_silence(line.down[0]);
    _exit(3);
}

int main(void)
{
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pthread_t thread;
        be_child(&line);
        CHECK(pthread_create(&thread, NULL, rest, NULL) == 0);
        pthread_exit(NULL);
    }
    be_parent(&line);
    CHECK(get(line.up[0]) == 1);
    moment("headless");
    CHECK(close(line.down[1]) == 0);
    reap(child, 3);
    puts("ended");
    return 0;
}
