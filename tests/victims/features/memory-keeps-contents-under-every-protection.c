/* Anonymous memory keeps its contents under every protection, and the protection too.
 *
 * expect: survive
 */
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { KINDS = 6, BYTES = 3 * 4096 };
static const int protections[KINDS] = {
    PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC, PROT_EXEC, PROT_READ | PROT_WRITE | PROT_EXEC,
};
static sigjmp_buf back;

static void caught(int signal)
{
    siglongjmp(back, signal);
}

static int can_write(volatile char *at)
{
    if (sigsetjmp(back, 1) != 0)
        return 0;
    *at = *at;
    return 1;
}

int main(void)
{
    char *kinds[KINDS];
    CHECK(signal(SIGSEGV, caught) != SIG_ERR);
    for (int i = 0; i < KINDS; i++) {
        kinds[i] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(kinds[i] != MAP_FAILED);
        memset(kinds[i], 'a' + i, BYTES);
        CHECK(mprotect(kinds[i], BYTES, protections[i]) == 0);
    }
    moment("protected");
    for (int i = 0; i < KINDS; i++)
        CHECK(can_write(kinds[i]) == ((protections[i] & PROT_WRITE) != 0));
    for (int i = 0; i < KINDS; i++) {
        CHECK(mprotect(kinds[i], BYTES, PROT_READ) == 0);
        for (int at = 0; at < BYTES; at++)
            CHECK(kinds[i][at] == 'a' + i);
    }
    puts("contents and protections kept");
    return 0;
}
