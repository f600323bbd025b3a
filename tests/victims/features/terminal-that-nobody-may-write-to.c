/* A terminal whose node the program has closed to others (mesg n) stays closed to them, and one that it has opened to all
 * stays open.
 *
 * expect: survive
 */
#include "terminal.h"
#include <sys/stat.h>

int main(void)
{
    static const mode_t modes[] = {0600, 0622};
    int masters[2], slaves[2];
    struct stat now;
    for (int i = 0; i < 2; i++) {
        open_terminal(&masters[i], &slaves[i], i);
        CHECK(fchmod(slaves[i], modes[i]) == 0);
    }
    for (int life = 0; life < 2; life++) {
        moment("set");
        for (int i = 0; i < 2; i++)
            CHECK(fstat(slaves[i], &now) == 0 && (now.st_mode & 07777) == modes[i]);
    }
    say(slaves[0], "heard");
    hear(masters[0], "heard");
    puts("closed and open");
    return 0;
}
