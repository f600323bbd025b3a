/* Restartable sequences whose area is not near the thread pointer are refused by name where the kernel does not tell of
 * them (before Linux 5.13).
 *
 * expect: refuse "restartable sequences" "GLIBC_TUNABLES"
 * doctor-blind: only the thread itself can try where its area is
 */
#include "check.h"
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

int main(int argc, char **argv)
{
    struct utsname kernel;
    int major, minor;
    (void)argc;
    CHECK(uname(&kernel) == 0 && sscanf(kernel.release, "%d.%d", &major, &minor) == 2);
    if (major > 5 || (major == 5 && minor >= 13))
        LACKS("a kernel that does not tell of restartable sequences (before Linux 5.13)");
    if (__rseq_size != 0) {
        CHECK(setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1) == 0);
        execv("/proc/self/exe", argv);
    }
    CHECK(__rseq_size == 0);
    struct rseq *area = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && syscall(SYS_rseq, area, 32, 0, RSEQ_SIG) == 0);
    moment("registered");
    CHECK(syscall(SYS_rseq, area, 32, 0, RSEQ_SIG) == -1 && errno == EBUSY);
    puts("registered");
    return 0;
}
