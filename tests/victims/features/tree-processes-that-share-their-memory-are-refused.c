/* Two processes in one memory (CLONE_VM without CLONE_THREAD) are refused.
 *
 * expect: refuse "share" "memory"
 * doctor-blind: it takes a child in its parent's memory for one of vfork, which is soon gone
 */
#include "family.h"

static volatile int go;

static int child(void *unused)
{
    (void)unused;
    while (!go)
        usleep(200);
    return 4;
}

int main(void)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    pid_t made = clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    CHECK(made > 0);
    moment("shared");
    go = 1;
    reap(made, 4);
    puts("ended");
    return 0;
}
