/* A terminal whose node the program has closed to others (mesg n) stays closed to them, and one that it has opened to all
 * stays open, also where the other side is gone.
 *
 * expect: survive
 */
#include "terminal.h"
#include <sys/stat.h>

int main(void)
{
    static const mode_t modes[] = {0600, 0622, 0755};
    int masters[3], slaves[3];
    struct stat now;
    for (int i = 0; i < 3; i++) {
        open_terminal(&masters[i], &slaves[i], i);
        CHECK(fchmod(slaves[i], modes[i]) == 0);
    }
    CHECK(close(masters[2]) == 0);
    for (int life = 0; life < 2; life++) {
        moment("set");
        for (int i = 0; i < 3; i++)
            CHECK(fstat(slaves[i], &now) == 0 && (now.st_mode & 07777) == modes[i]);
    }
    say(slaves[0], "heard");
    hear(masters[0], "heard");
    puts("closed and open");
    return 0;
}
