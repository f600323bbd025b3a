/* Memory under the second protection key comes back under it if the program has released the first one.
 *
 * expect: survive
 */
#include "mapped.h"
#include <sys/mman.h>

enum { BYTES = 4 << 12 };

int main(void)
{
    int spare = pkey_alloc(0, 0), guard = pkey_alloc(0, 0);
    if (spare < 0 || guard < 0)
        LACKS("protection keys");
    CHECK(spare < guard && pkey_free(spare) == 0);
    char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && pkey_mprotect(map, BYTES, PROT_READ | PROT_WRITE, guard) == 0);
    memset(map, 'x', BYTES);
    for (int life = 1; life <= 2; life++) {
        char key[16];
        moment("guarded");
        told_of(map, "ProtectionKey:", key, sizeof key);
        CHECK(atoi(key) == guard && map[BYTES - 1] == 'x');
        CHECK(pkey_alloc(0, 0) == spare && pkey_free(spare) == 0);
    }
    puts("under its key");
    return 0;
}
