/* An alarm that is set goes on with the time that was left.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>

static volatile sig_atomic_t rung;

static void ring(int signal)
{
    (void)signal;
    rung++;
}

int main(void)
{
    CHECK(signal(SIGALRM, ring) != SIG_ERR);
    CHECK(alarm(1000) == 0);
    moment("alarm set");
    unsigned left = alarm(0);
    CHECK(left > 500 && left <= 1000 && rung == 0);
    CHECK(alarm(1) == 0);
    while (rung == 0)
        pause();
    puts("alarm: rung once");
    return 0;
}
