/* Holds one thing that cannot be carried over, named by its argument, until a file named `gate` appears; then lets it go
 * and ends well. */
#include "check.h"
#include <fcntl.h>
#include <sys/syscall.h>

static void wait_at_gate(void)
{
    const struct timespec a_while = {0, 1000000};
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    while (access("gate", F_OK) != 0)
        CHECK(nanosleep(&a_while, NULL) == 0);
}

static void hold_userfault(void)
{
    /* UFFD_USER_MODE_ONLY, which needs no privilege. */
    int faults = (int)syscall(SYS_userfaultfd, 1);
    CHECK(faults >= 0);
    wait_at_gate();
    CHECK(close(faults) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (strcmp(argv[1], "userfault") == 0)
        hold_userfault();
    else
        CHECK(!"a known thing to hold");
    printf("holder: let go of %s\n", argv[1]);
    return 0;
}
