/* A wait for several futexes at once (futex_waitv) goes on after a restart and is woken by any of them.
 *
 * expect: survive
 */
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>

static uint32_t words[3];
static volatile pid_t waiting;

static void *waiter(void *unused)
{
    struct futex_waitv waits[3];
    (void)unused;
    memset(waits, 0, sizeof waits);
    for (int i = 0; i < 3; i++) {
        waits[i].uaddr = (uintptr_t)&words[i];
        waits[i].flags = FUTEX_32 | FUTEX_PRIVATE_FLAG;
    }
    waiting = gettid();
    CHECK(syscall(SYS_futex_waitv, waits, 3, 0, NULL, 0) == 1);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) == -1 && errno == ENOSYS)
        LACKS("futex_waitv");
    CHECK(pthread_create(&thread, NULL, waiter, NULL) == 0);
    await((volatile int *)&waiting);
    await_call(waiting, SYS_futex_waitv);
    moment("waiting");
    /* It may be on its way back into the wait. */
    while (syscall(SYS_futex, &words[1], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0)
        usleep(200);
    CHECK(pthread_join(thread, NULL) == 0);
    puts("woken by the second");
    return 0;
}
