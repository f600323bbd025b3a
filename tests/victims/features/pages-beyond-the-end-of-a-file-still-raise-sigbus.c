/* Pages of a private mapping that lie behind the end of the file raise SIGBUS after a restart as they did before.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
static sigjmp_buf back;
static void *volatile where;

static void caught(int signal, siginfo_t *info, void *context)
{
    (void)context;
    where = info->si_addr;
    siglongjmp(back, signal);
}

static int touch(volatile char *at)
{
    int signal = sigsetjmp(back, 1);
    if (signal == 0)
        (void)*at;
    return signal;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    int file = open("input", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0 && write(file, "short", 5) == 5);
    char *map = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(map != MAP_FAILED && close(file) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    CHECK(touch(map + PAGE) == SIGBUS && where == map + PAGE);
    for (int life = 0; life < 2; life++) {
        moment("mapped");
        CHECK(memcmp(map, "short\0", 6) == 0 && touch(map) == 0);
        for (int i = 1; i < 4; i++)
            CHECK(touch(map + i * PAGE + 8) == SIGBUS && where == map + i * PAGE + 8);
    }
    puts("SIGBUS where it was");
    return 0;
}
