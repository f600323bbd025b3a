/* A program that has put itself under Landlock is refused by name: a restart would be free of it.
 *
 * expect: refuse "landlock"
 * doctor-blind: only the program itself can find out
 */
#include "check.h"
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(void)
{
    /* Only making character devices is governed: harmless, and a sandbox all the same. */
    struct landlock_ruleset_attr rules = {.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_CHAR};
    int set = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    if (set < 0)
        LACKS("Landlock");
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_landlock_restrict_self, set, 0) == 0 && close(set) == 0);
    moment("sandboxed");
    puts("sandboxed");
    return 0;
}
