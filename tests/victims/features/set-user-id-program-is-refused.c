/* A process with another effective user than real one, as set-uid programs have, is refused by name.
 *
 * expect: refuse "user"
 * needs: root
 */
#include "check.h"
#include <sys/prctl.h>

int main(void)
{
    CHECK(seteuid(65534) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
    moment("as nobody");
    CHECK(seteuid(0) == 0);
    puts("as oneself");
    return 0;
}
