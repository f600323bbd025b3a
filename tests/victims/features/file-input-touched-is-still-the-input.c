/* An input file that was only touched, copied back or given another mode is still the input: times alone prove nothing.
 *
 * expect: survive
 * no-rollback: the input is gone by then
 * meanwhile: cp input again; mv again input; touch -d 2001-01-01 input; chmod 600 input
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char text[8];
    int input = open("input", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(input >= 0 && write(input, "some input", 10) == 10 && close(input) == 0);
    input = open("input", O_RDONLY);
    CHECK(input >= 0 && read(input, text, 4) == 4);
    moment("in the middle of the input");
    CHECK(read(input, text, 6) == 6 && memcmp(text, " input", 6) == 0);
    CHECK(unlink("input") == 0);
    puts("read");
    return 0;
}
