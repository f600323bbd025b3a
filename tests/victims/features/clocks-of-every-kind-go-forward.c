/* No clock that counts time elapsed goes back over a restart: monotonic, raw, coarse, boot time; time of day neither.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/syscall.h>
#include <sys/time.h>

static const clockid_t clocks[] = {
    CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME,
    CLOCK_REALTIME,  CLOCK_REALTIME_COARSE, CLOCK_TAI,
};
enum { COUNT = sizeof clocks / sizeof *clocks };

static int64_t read_clock(clockid_t clock, int by_kernel)
{
    struct timespec t;
    CHECK((by_kernel ? syscall(SYS_clock_gettime, clock, &t) : clock_gettime(clock, &t)) == 0);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(void)
{
    int64_t before[COUNT];
    struct timeval day, later;
    for (int life = 0; life < 3; life++) {
        /* It is as coarse as the coarse clocks, and may still tell the second before that of gettimeofday. */
        time_t second = time(NULL);
        CHECK(gettimeofday(&day, NULL) == 0);
        for (int i = 0; i < COUNT; i++)
            before[i] = read_clock(clocks[i], 0);
        moment("read");
        for (int i = 0; i < COUNT; i++) {
            int64_t by_vdso = read_clock(clocks[i], 0), by_kernel = read_clock(clocks[i], 1);
            CHECK(by_vdso >= before[i] && by_kernel >= by_vdso && by_kernel - by_vdso < 5000000000);
        }
        CHECK(gettimeofday(&later, NULL) == 0 && later.tv_sec >= day.tv_sec && time(NULL) >= second);
    }
    puts("forward");
    return 0;
}
