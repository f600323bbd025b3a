/* With --files refuse any growth of a file refuses the restart, also the job's own.
 *
 * expect: refuse-restart "log" "grown by 2 bytes"
 * restart: --files refuse
 * meanwhile: echo x >> log
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
