/* A thread without an alternate stack may still have asked to disarm it, as after an exec with one.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

enum { DISARM = (int)SS_AUTODISARM };

int main(void)
{
    stack_t off = {.ss_flags = SS_DISABLE | DISARM}, now;
    CHECK(sigaltstack(&off, NULL) == 0);
    for (int round = 0; round < 2; round++) {
        moment("off");
        CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == (SS_DISABLE | DISARM));
    }
    puts("off");
    return 0;
}
