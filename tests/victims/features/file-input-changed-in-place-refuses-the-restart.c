/* An input file whose content has changed below the checkpointed length refuses the restart, though length and time of
 * modification are as they were.
 *
 * expect: refuse-restart "input" "has been changed" "--files keep"
 * meanwhile: touch -r input stamp; printf X | dd of=input bs=1 seek=5 conv=notrunc status=none; touch -r stamp input
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char text[8];
    int input = open("input", O_RDWR | O_CREAT, 0644);
    CHECK(input >= 0 && write(input, "some input", 10) == 10 && close(input) == 0);
    input = open("input", O_RDONLY);
    CHECK(input >= 0 && read(input, text, 4) == 4);
    moment("in the middle of the input");
    CHECK(read(input, text, 6) == 6);
    puts("read");
    return 0;
}
