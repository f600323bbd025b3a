/* With --files rollback a log is cut back whoever has written to its end.
 *
 * expect: survive
 * restart: --files rollback
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
