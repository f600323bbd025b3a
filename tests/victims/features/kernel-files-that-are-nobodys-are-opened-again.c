/* Files of /proc and /sys that are about the machine, held open, can be read and written on; directories of theirs are
 * listed on.
 *
 * expect: survive
 */
#include "proc_files.h"
#include <dirent.h>

int main(void)
{
    char shown[64] = "";
    static const char *const paths[] = {"/proc/meminfo", "/proc/sys/kernel/pid_max", "/proc/mounts", "/proc/net/dev",
                                        "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/devices/system/cpu/online"};
    enum { PATHS = sizeof paths / sizeof *paths };
    int files[PATHS];
    for (int i = 0; i < PATHS; i++)
        files[i] = open(paths[i], O_RDONLY);
    CHECK(files[0] >= 0 && read(files[0], shown, 9) == 9);
    int root = opened("/proc", O_RDONLY | O_DIRECTORY);
    int sys = opened("/sys/kernel", O_RDONLY | O_DIRECTORY);
    for (int life = 1; life <= 3; life++) {
        for (int i = 0; i < PATHS; i++)
            CHECK(files[i] < 0 || *text_of(files[i]) != 0);
        CHECK(number_behind(text_of(files[0]), "MemTotal:") > 0);
        CHECK(lseek(files[0], 0, SEEK_CUR) == 9);
        char own[64];
        snprintf(own, sizeof own, "%d/stat", getpid());
        int below = openat(root, own, O_RDONLY);
        CHECK(below >= 0 && atol(text_of(below)) == getpid() && close(below) == 0);
        CHECK(faccessat(sys, "mm", F_OK, 0) == 0);
        if (life < 3)
            moment("open");
    }
    puts("read on");
    return 0;
}
