/* An input file to which something was added is still the input: the program finds more to read, as it would have.
 *
 * expect: survive
 * meanwhile: test $(wc -c < input) -gt 4 || printf more >> input
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char text[8] = "";
    int input = open("input", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(input >= 0 && write(input, "some", 4) == 4 && close(input) == 0);
    input = open("input", O_RDONLY);
    CHECK(input >= 0 && read(input, text, 4) == 4);
    moment("at the end of the input");
    /* Nobody adds anything in an undisturbed run. */
    ssize_t more = read(input, text, sizeof text);
    CHECK(more == 0 || (more == 4 && memcmp(text, "more", 4) == 0));
    CHECK(truncate("input", 4) == 0);
    puts("read");
    return 0;
}
