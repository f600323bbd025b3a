/* Memory under a protection key comes back under the same key, with the rights of each thread; a free key stays free.
 *
 * expect: survive
 */
#include "mapped.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { BYTES = 4 << 12 };

static sigjmp_buf out;

static void leave(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

static int faults(volatile char *byte)
{
    if (sigsetjmp(out, 1) != 0)
        return 1;
    *byte = 'y';
    return 0;
}

int main(void)
{
    struct sigaction action = {.sa_handler = leave};
    char key[64];
    int spare = pkey_alloc(0, 0), guard = pkey_alloc(0, 0);
    if (guard < 0)
        LACKS("protection keys");
    CHECK(pkey_free(spare) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
    char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && pkey_mprotect(map, BYTES, PROT_READ | PROT_WRITE, guard) == 0);
    map[0] = 'x';
    CHECK(pkey_set(guard, PKEY_DISABLE_WRITE) == 0);
    for (int life = 0; life < 2; life++) {
        moment("guarded by a key");
        told_of(map, "ProtectionKey:", key, sizeof key);
        CHECK(atoi(key) == guard && pkey_get(guard) == PKEY_DISABLE_WRITE);
        CHECK(map[0] == 'x' && faults(map));
        CHECK(pkey_alloc(0, 0) == spare && pkey_free(spare) == 0);
        /* The kernel gives a handler rights of its own, and a jump out of it keeps those. */
        CHECK(pkey_set(guard, PKEY_DISABLE_WRITE) == 0);
    }
    CHECK(pkey_set(guard, 0) == 0 && !faults(map) && map[0] == 'y');
    CHECK(pkey_mprotect(map, BYTES, PROT_READ, 0) == 0 && pkey_free(guard) == 0);
    puts("keys");
    return 0;
}
