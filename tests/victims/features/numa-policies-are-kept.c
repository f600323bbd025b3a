/* From which NUMA nodes memory is to come, said for each thread and for each mapping, is said again after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { DEFAULT, PREFERRED, BIND, INTERLEAVE, LOCAL, STATIC = 1 << 15, OF_ADDRESS = 2, BITS = 1024, BYTES = 1 << 16 };
static unsigned long node_0[BITS / 64] = {1};
static char *bound, *interleaved, *plain;
static volatile int is_set, may_look;

static int policy_of(void *address)
{
    unsigned long nodes[BITS / 64] = {0};
    int mode = -1;
    CHECK(syscall(SYS_get_mempolicy, &mode, nodes, BITS, address, address ? OF_ADDRESS : 0) == 0);
    /* Linux 5.10 says so of local memory. */
    if (mode == PREFERRED && nodes[0] == 0)
        mode = LOCAL;
    CHECK(mode == DEFAULT || mode == LOCAL || nodes[0] == 1);
    return mode;
}

static void *other(void *unused)
{
    CHECK(syscall(SYS_set_mempolicy, PREFERRED, node_0, BITS) == 0);
    is_set = 1;
    await(&may_look);
    CHECK(policy_of(NULL) == PREFERRED);
    return unused;
}

static char *map(void)
{
    char *start = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    return start;
}

int main(void)
{
    pthread_t thread;
    if (syscall(SYS_set_mempolicy, INTERLEAVE, node_0, BITS) != 0)
        LACKS("NUMA policies");
    bound = map(), interleaved = map(), plain = map();
    CHECK(syscall(SYS_mbind, bound, BYTES, BIND | STATIC, node_0, BITS, 0) == 0);
    CHECK(syscall(SYS_mbind, interleaved, BYTES, LOCAL, NULL, 0, 0) == 0);
    memset(bound, 1, BYTES);
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    await(&is_set);
    moment("said");
    may_look = 1;
    CHECK(policy_of(NULL) == INTERLEAVE && policy_of(bound) == (BIND | STATIC));
    CHECK(policy_of(interleaved) == LOCAL && policy_of(plain) == DEFAULT && bound[BYTES - 1] == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    puts("all policies are as they were");
    return 0;
}
