/* A program that has switched huge pages off except where it advises to use them has it so after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/prctl.h>

enum { EXCEPT_ADVISED = 1 << 1 };

int main(void)
{
    if (prctl(PR_SET_THP_DISABLE, 1, EXCEPT_ADVISED, 0, 0) != 0)
        LACKS("PR_THP_DISABLE_EXCEPT_ADVISED (Linux 6.18)");
    int before = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
    CHECK(before == (1 | EXCEPT_ADVISED));
    moment("off");
    CHECK(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == before);
    moment("off still");
    CHECK(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == before);
    CHECK(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0) == 0);
    puts("off");
    return 0;
}
