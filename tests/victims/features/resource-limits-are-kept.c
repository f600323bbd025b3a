/* Every resource limit, soft and hard, is as the program set it.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/resource.h>

int main(void)
{
    struct rlimit set[16], got;
    for (int i = 0; i < 16; i++) {
        CHECK(getrlimit(i, &set[i]) == 0);
        if (i == RLIMIT_AS || i == RLIMIT_STACK || i == RLIMIT_NPROC || i == RLIMIT_NICE || i == RLIMIT_RTPRIO)
            continue;
        if (set[i].rlim_max == RLIM_INFINITY || set[i].rlim_max > 1000000)
            set[i].rlim_max = 1000000 + (rlim_t)i;
        if (set[i].rlim_cur > set[i].rlim_max - 5)
            set[i].rlim_cur = set[i].rlim_max > 5 ? set[i].rlim_max - 5 : 0;
        CHECK(setrlimit(i, &set[i]) == 0);
    }
    moment("limited");
    for (int i = 0; i < 16; i++)
        CHECK(getrlimit(i, &got) == 0 && got.rlim_cur == set[i].rlim_cur && got.rlim_max == set[i].rlim_max);
    puts("limited as before");
    return 0;
}
