/* The x87 register stack and control word of a computing thread are kept.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>

static volatile int spinning, go;

static void *thread(void *unused)
{
    long double seen[6];
    uint16_t control = 0x0c7f, saved, after; /* towards zero, 24 bits of precision */
    (void)unused;
    __asm__ volatile("fnstcw %[saved]\n\tfninit\n\tfldcw %[control]\n\t"
                     "fldpi\n\tfldl2e\n\tfldl2t\n\tfldlg2\n\tfldln2\n\tfld1\n\t"
                     "movl $1, %[spinning]\n\t"
                     "1: pause\n\tcmpl $0, %[go]\n\tje 1b\n\t"
                     "fnstcw %[after]\n\t"
                     "fstpt 0+%[seen]\n\tfstpt 16+%[seen]\n\tfstpt 32+%[seen]\n\tfstpt 48+%[seen]\n\t"
                     "fstpt 64+%[seen]\n\tfstpt 80+%[seen]\n\tfldcw %[saved]"
                     : [seen] "=m"(seen), [saved] "=m"(saved), [after] "=m"(after), [spinning] "=m"(spinning)
                     : [go] "m"(go), [control] "m"(control)
                     : "memory", "cc", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)");
    CHECK(after == control && seen[0] == 1.0L);
    CHECK(seen[1] > 0.6931471805599453L && seen[1] < 0.6931471805599454L);
    CHECK(seen[2] > 0.3010299956639811L && seen[2] < 0.3010299956639812L);
    CHECK(seen[3] > 3.3219280948873621L && seen[3] < 3.3219280948873624L);
    CHECK(seen[4] > 1.4426950408889633L && seen[4] < 1.4426950408889635L);
    CHECK(seen[5] > 3.1415926535897931L && seen[5] < 3.1415926535897934L);
    return NULL;
}

int main(void)
{
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    await(&spinning);
    moment("on the x87 stack");
    go = 1;
    CHECK(pthread_join(other, NULL) == 0);
    puts("kept");
    return 0;
}
