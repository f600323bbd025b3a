/* A program that would make its next child under other process ids or other clocks is refused by name.
 *
 * expect: refuse "next child in another namespace"
 * needs: root
 */
#include "check.h"
#include <fcntl.h>
#include <sched.h>

static void ids(void)
{
    CHECK(unshare(CLONE_NEWPID) == 0);
}

static void clocks(void)
{
    static const char shift[] = "monotonic 1000000 0";
    CHECK(unshare(CLONE_NEWTIME) == 0);
    int file = open("/proc/self/timens_offsets", O_WRONLY);
    CHECK(file >= 0 && write(file, shift, sizeof shift - 1) == sizeof shift - 1 && close(file) == 0);
}

int main(void)
{
    void (*ways[])(void) = {clocks, ids};
    if (access("/proc/self/ns/time_for_children", F_OK) != 0)
        LACKS("time namespaces");
    for (int way = 0; way < 2; way++) {
        ways[way]();
        moment("unshared");
        int home = open(way == 0 ? "/proc/self/ns/time" : "/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
        CHECK(home >= 0 && setns(home, 0) == 0 && close(home) == 0);
    }
    puts("unshared");
    return 0;
}
