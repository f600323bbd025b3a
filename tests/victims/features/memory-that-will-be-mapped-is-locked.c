/* A program that has locked all memory that it has and will ever map has it locked after a restart, too.
 *
 * expect: survive
 * flags: -static
 */
#include "mapped.h"
#include <sys/mman.h>

enum { BYTES = 16 << 12 };

static char *map(void)
{
    char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    map[5] = 5;
    return map;
}

int main(void)
{
    char *before = map();
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0 && (errno == ENOMEM || errno == EPERM))
        LACKS("the right to lock memory");
    char *first = map();
    if (mlock2(first, BYTES, MLOCK_ONFAULT) == 0 && !has_flag(first, " lf"))
        LACKS("a kernel that shows which memory is locked on first use (lf in /proc/self/smaps)");
    CHECK(munmap(first, BYTES) == 0);
    for (int life = 0; life < 2; life++) {
        moment("all locked");
        char *now = map();
        CHECK(has_flag(before, " lo") && has_flag(now, " lo") && !has_flag(now, " lf"));
        CHECK(before[5] == 5 && munmap(now, BYTES) == 0);
    }
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0);
    moment("all locked on first use");
    char *now = map();
    CHECK(has_flag(now, " lf") && has_flag(before, " lf"));
    CHECK(munlockall() == 0);
    moment("unlocked");
    CHECK(!has_flag(map(), " lo"));
    puts("locked for ever");
    return 0;
}
