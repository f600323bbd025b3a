/* A log that its own writer may not read is continued all the same.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int log = open("log", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(log >= 0 && fchmod(log, 0200) == 0 && write(log, "one ", 4) == 4);
    moment("not to be read");
    CHECK(write(log, "two ", 4) == 4);
    moment("twice");
    CHECK(fchmod(log, 0644) == 0);
    puts("done");
    return 0;
}
