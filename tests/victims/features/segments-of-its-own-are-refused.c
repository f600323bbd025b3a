/* A program that has made segments of its own in the local descriptor table is refused by name.
 *
 * expect: refuse "local descriptor table"
 * doctor-blind: only the program itself can ask
 */
#include "check.h"
#include <asm/ldt.h>
#include <sys/syscall.h>

int main(void)
{
    struct user_desc segment = {
        .base_addr = 0x10000,
        .limit = 0xfff,
        .seg_32bit = 1,
        .useable = 1,
    };
    if (syscall(SYS_modify_ldt, 1, &segment, sizeof segment) != 0)
        LACKS("modify_ldt");
    moment("made");
    puts("made");
    return 0;
}
