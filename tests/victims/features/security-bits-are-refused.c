/* A program that has changed what root's privileges mean to it (PR_SET_SECUREBITS) is refused by name.
 *
 * expect: refuse "security bits"
 * needs: root
 * doctor-blind: only the program itself can ask
 */
#include "check.h"
#include <linux/securebits.h>
#include <sys/prctl.h>

int main(void)
{
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) != 0)
        LACKS("the capability to set security bits");
    moment("set");
    puts("set");
    return 0;
}
