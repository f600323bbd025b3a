/* The main thread's stack keeps its contents at any depth and grows on after a restart.
 *
 * expect: survive
 */
#include "check.h"

static __attribute__((noinline)) uint64_t deep(int depth, int moments_at)
{
    volatile char room[8192];
    uint64_t sum = FOLD_START;
    memset((char *)room, depth & 0x7f, sizeof room);
    if (depth == moments_at)
        moment("deep");
    if (depth > 0)
        sum = deep(depth - 1, moments_at);
    for (unsigned i = 0; i < sizeof room; i++)
        CHECK(room[i] == (depth & 0x7f));
    return fold(sum, (char *)room, 16);
}

int main(void)
{
    uint64_t sum = deep(50, 25);
    moment("back up again");
    /* 3 MB, far deeper than ever before. */
    sum ^= deep(400, 0);
    printf("stack %016lx\n", (unsigned long)sum);
    return 0;
}
