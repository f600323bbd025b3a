/* Memory that was sealed (mseal) keeps its contents, and cannot be changed after a restart either.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

enum { BYTES = 4 << 12 };

int main(void)
{
    char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    memset(map, 'x', BYTES);
    CHECK(mprotect(map, BYTES, PROT_READ) == 0);
    if (syscall(SYS_mseal, map, BYTES, 0) != 0)
        LACKS("mseal (Linux 6.10)");
    for (int life = 0; life < 2; life++) {
        moment("sealed");
        CHECK(mprotect(map, BYTES, PROT_READ | PROT_WRITE) == -1 && errno == EPERM);
        CHECK(munmap(map, BYTES) == -1 && errno == EPERM);
        CHECK(map[0] == 'x' && map[BYTES - 1] == 'x');
    }
    puts("sealed");
    return 0;
}
