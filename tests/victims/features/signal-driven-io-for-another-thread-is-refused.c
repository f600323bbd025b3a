/* Signal-driven I/O that tells another thread than the first is refused by name.
 *
 * expect: refuse "signals (F_SETOWN)"
 */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

static volatile int ready, over;
static volatile pid_t thread_id;

static void *told(void *nothing)
{
    thread_id = gettid();
    ready = 1;
    await(&over);
    return nothing;
}

int main(void)
{
    int pair[2];
    pthread_t thread;
    struct f_owner_ex owner = {.type = F_OWNER_TID}, now;
    CHECK(signal(SIGIO, SIG_IGN) != SIG_ERR && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(pthread_create(&thread, NULL, told, NULL) == 0);
    await(&ready);
    owner.pid = thread_id;
    CHECK(fcntl(pair[0], F_SETOWN_EX, &owner) == 0 && fcntl(pair[0], F_SETFL, O_ASYNC) == 0);
    moment("armed");
    CHECK(fcntl(pair[0], F_GETOWN_EX, &now) == 0 && now.type == F_OWNER_TID && now.pid == thread_id);
    over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("still armed");
    return 0;
}
