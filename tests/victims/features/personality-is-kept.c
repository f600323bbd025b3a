/* The execution domain that the program chose (no randomisation of addresses, old layouts) is kept.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/personality.h>

int main(void)
{
    int chosen = ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT | STICKY_TIMEOUTS;
    CHECK(personality((unsigned long)chosen) >= 0);
    moment("chosen");
    CHECK(personality(0xffffffff) == chosen);
    puts("same domain");
    return 0;
}
