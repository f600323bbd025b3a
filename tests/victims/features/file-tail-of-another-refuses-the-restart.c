/* A log to which somebody else has written after the program's death is not cut back unasked.
 *
 * expect: refuse-restart "log" "another program" "--files rollback" "--files keep"
 * meanwhile: echo a stranger was here >> log
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    CHECK(log >= 0 && dprintf(log, "mine\n") == 5);
    moment("logged");
    CHECK(dprintf(log, "mine, too\n") > 0);
    puts("done");
    return 0;
}
