/* A program of root's that has made itself undumpable is undumpable after a restart.
 *
 * expect: survive
 * needs: root
 */
#include "check.h"
#include <sys/prctl.h>

int main(void)
{
    CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
    for (int life = 0; life < 2; life++) {
        moment("hidden");
        CHECK(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
    }
    puts("hidden");
    return 0;
}
