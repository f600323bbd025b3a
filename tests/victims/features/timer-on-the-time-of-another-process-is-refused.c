/* A POSIX timer on the processor time of another process is refused by name.
 *
 * expect: refuse "timer" "another process"
 * doctor-blind: only the program itself can list its timers
 */
#include "family.h"
#include <time.h>

int main(void)
{
    struct line line;
    struct sigevent nobody = {.sigev_notify = SIGEV_NONE};
    clockid_t clock;
    timer_t timer;
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        await_silence(line.down[0]);
        _exit(3);
    }
    be_parent(&line);
    CHECK(clock_getcpuclockid(child, &clock) == 0 && timer_create(clock, &nobody, &timer) == 0);
    moment("made");
    CHECK(timer_delete(timer) == 0 && close(line.down[1]) == 0);
    reap(child, 3);
    puts("deleted");
    return 0;
}
