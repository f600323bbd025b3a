/* A log that is written in append mode and grew after the checkpoint has every line once.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0644);
    CHECK(log >= 0);
    for (int i = 0; i < 300; i++) {
        CHECK(dprintf(log, "line %d\n", i) > 0);
        if (i % 100 == 50)
            moment("in the middle");
    }
    CHECK(lseek(log, 0, SEEK_END) > 0 && (fcntl(log, F_GETFL) & O_APPEND));
    puts("written");
    return 0;
}
