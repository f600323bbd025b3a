/* A file that somebody else has made shorter refuses the restart.
 *
 * expect: refuse-restart "log" "what it held has been changed"
 * meanwhile: truncate -s 3 log
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    CHECK(log >= 0 && dprintf(log, "mine\n") == 5);
    moment("logged");
    puts("done");
    return 0;
}
