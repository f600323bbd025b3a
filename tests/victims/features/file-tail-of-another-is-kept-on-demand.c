/* With --files keep a log stays as it is, and a program that writes at its end goes on behind what others wrote.
 *
 * expect: survive
 * restart: --files keep
 * meanwhile: echo a stranger was here >> ../stranger; printf x >> log
 * no-rollback: what the later life wrote would be kept as well
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char text[64] = "";
    int log = open("log", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int out = open("log", O_WRONLY);
    CHECK(log >= 0 && out >= 0 && write(out, "one", 3) == 3);
    moment("logged");
    CHECK(write(out, "two", 3) == 3);
    CHECK(pread(log, text, sizeof text, 0) > 0);
    /* Undisturbed, or with the stranger's letter in between. */
    CHECK(strcmp(text, "onetwo") == 0 || strcmp(text, "onextwo") == 0);
    CHECK(ftruncate(log, 0) == 0);
    puts("done");
    return 0;
}
