/* A performance counter is refused by name.
 *
 * expect: refuse "perf"
 */
#include "check.h"
#include <linux/perf_event.h>
#include <sys/syscall.h>

int main(void)
{
    struct perf_event_attr what = {.type = PERF_TYPE_SOFTWARE, .size = sizeof what, .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1};
    int counter = (int)syscall(SYS_perf_event_open, &what, 0, -1, -1, 0);
    if (counter < 0)
        LACKS("perf may not be used");
    moment("counting");
    uint64_t count;
    CHECK(read(counter, &count, sizeof count) == sizeof count && close(counter) == 0);
    puts("closed");
    return 0;
}
