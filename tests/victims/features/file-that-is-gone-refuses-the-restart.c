/* A file that the program reads and that cannot be found any more refuses the restart.
 *
 * expect: refuse-restart "input" "cannot be found"
 * meanwhile: rm input
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int made = open("input", O_WRONLY | O_CREAT, 0644);
    CHECK(made >= 0 && dprintf(made, "mine\n") == 5 && close(made) == 0);
    int input = open("input", O_RDONLY);
    CHECK(input >= 0);
    moment("open");
    puts("done");
    return 0;
}
