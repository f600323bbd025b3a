/* The heap below the program break keeps its contents and its end, and grows on from there.
 *
 * expect: survive
 */
#include "check.h"

int main(void)
{
    char *start = sbrk(3 * 4096 + 100);
    CHECK(start != (void *)-1);
    memset(start, 'a', 3 * 4096 + 100);
    char *end = sbrk(0);
    moment("grown");
    CHECK(sbrk(0) == end);
    CHECK(sbrk(5 * 4096) == end);
    for (int i = 0; i < 5 * 4096; i++)
        CHECK(end[i] == 0);
    memset(end, 'b', 5 * 4096);
    moment("grown further");
    CHECK(brk(end) == 0 && sbrk(0) == end);
    moment("shrunk");
    for (int i = 0; i < 3 * 4096 + 100; i++)
        CHECK(start[i] == 'a');
    CHECK(sbrk(4096 * 10) == end && end[4096 * 9] == 0);
    puts("the heap is whole");
    return 0;
}
