/* Descriptors have the numbers that they had, the gaps between them are free, and the next one fills the first gap.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>

int main(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    int high = limit.rlim_cur > 1000 ? 999 : (int)limit.rlim_cur - 1;
    CHECK(close_range(3, ~0u, 0) == 0);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(null >= 0 && dup2(null, high) == high && dup2(null, 50) == 50 && close(0) == 0);
    limit.rlim_cur = 40;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    moment("numbered");
    for (int number = 0; number < high; number++) {
        int is_open = fcntl(number, F_GETFD) >= 0;
        CHECK(is_open == (number == 1 || number == 2 || number == null || number == 50));
    }
    CHECK(fcntl(high, F_GETFD) == 0 && fcntl(null, F_GETFD) == FD_CLOEXEC);
    CHECK(write(high, "x", 1) == 1 && open("/dev/null", O_RDONLY) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 40);
    puts("numbered as before");
    return 0;
}
