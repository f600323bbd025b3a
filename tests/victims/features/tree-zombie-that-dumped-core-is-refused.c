/* A zombie that has left a core file cannot be made again without another one: refused until it is waited for.
 *
 * expect: refuse "core" "zombie"
 */
#include "family.h"
#include <sys/resource.h>
#include <glob.h>

int main(void)
{
    siginfo_t info;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit limit;
        CHECK(getrlimit(RLIMIT_CORE, &limit) == 0);
        limit.rlim_cur = limit.rlim_max;
        CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
        raise(SIGQUIT);
        _exit(1);
    }
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    glob_t cores;
    if (glob("core*", 0, NULL, &cores) == 0)
        for (size_t i = 0; i < cores.gl_pathc; i++)
            CHECK(unlink(cores.gl_pathv[i]) == 0);
    if (info.si_code != CLD_DUMPED)
        LACKS("core files");
    moment("dumped");
    reap_killed(child, SIGQUIT);
    puts("dumped");
    return 0;
}
