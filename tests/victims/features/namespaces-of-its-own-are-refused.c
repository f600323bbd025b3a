/* A program that has put itself into namespaces of its own is refused.
 *
 * expect: refuse "namespace"
 */
#include "family.h"

int main(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0)
        LACKS("user namespaces");
    moment("apart");
    puts("apart");
    return 0;
}
