/* A set of Landlock rules that is not in force yet is refused by name, since its rules cannot be read back.
 *
 * expect: refuse "landlock" "rule set"
 */
#include "check.h"
#include <sys/syscall.h>

enum { CREATE_RULESET = 444 };

int main(void)
{
    const uint64_t handled = 1; /* executing */
    int rules = (int)syscall(CREATE_RULESET, &handled, sizeof handled, 0);
    if (rules < 0)
        LACKS("Landlock");
    moment("begun");
    CHECK(close(rules) == 0);
    puts("dropped");
    return 0;
}
