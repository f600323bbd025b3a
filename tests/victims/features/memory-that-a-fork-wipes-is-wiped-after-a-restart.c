/* A child that is forked after a restart gets memory that is wiped on fork empty, and memory that is not to be forked not
 * at all.
 *
 * expect: survive
 */
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096 };

static char *map(int advice)
{
    char *map = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && madvise(map, 4 * PAGE, advice) == 0);
    memset(map, 'x', 4 * PAGE);
    return map;
}

static int status_of_a_child_that_reads(volatile char *byte)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*byte);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

int main(void)
{
    char *wiped = map(MADV_WIPEONFORK), *kept_back = map(MADV_DONTFORK);
    for (int life = 0; life < 2; life++) {
        moment("before a fork");
        int status = status_of_a_child_that_reads(wiped + PAGE);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        status = status_of_a_child_that_reads(kept_back + PAGE);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        CHECK(wiped[0] == 'x' && kept_back[0] == 'x');
    }
    puts("wiped and kept back");
    return 0;
}
