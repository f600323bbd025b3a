/* A program that has made itself undumpable, which nobody but root may look at, is refused by name and runs on.
 *
 * expect: refuse "undumpable"
 * needs: user
 */
#include "check.h"
#include <sys/prctl.h>

int main(void)
{
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    moment("hidden");
    CHECK(prctl(PR_GET_DUMPABLE) == 0);
    puts("hidden");
    return 0;
}
