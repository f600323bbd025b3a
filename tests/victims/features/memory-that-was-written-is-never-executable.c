/* A program that forbids itself memory that is both written and executed (PR_SET_MDWE) is still forbidden it, and code
 * that it has already stays executable.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>
#include <sys/prctl.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#define PR_GET_MDWE 66
#endif

enum { PAGE = 4096 };

int main(void)
{
    static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* return 42 */
    unsigned char *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    memcpy(map, code, sizeof code);
    CHECK(mprotect(map, PAGE, PROT_READ | PROT_EXEC) == 0);
    if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
        LACKS("PR_SET_MDWE (Linux 6.3)");
    for (int life = 0; life < 2; life++) {
        moment("forbidden");
        CHECK(prctl(PR_GET_MDWE, 0, 0, 0, 0) == PR_MDWE_REFUSE_EXEC_GAIN);
        CHECK(mmap(NULL, PAGE, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
        CHECK(((int (*)(void))map)() == 42);
    }
    puts("forbidden");
    return 0;
}
