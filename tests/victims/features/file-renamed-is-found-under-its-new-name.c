/* A file that was renamed while it was open is found again under its new name.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int log = open("first-name", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(log >= 0 && dprintf(log, "one\n") == 4);
    CHECK(rename("first-name", "last-name") == 0);
    moment("renamed");
    CHECK(dprintf(log, "two\n") == 4);
    CHECK(access("first-name", F_OK) != 0);
    puts("done");
    return 0;
}
