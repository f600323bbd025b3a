/* What the program wrote to its output between checkpoint and death is cut off and written again.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    FILE *out = fopen("out", "w");
    CHECK(out != NULL);
    for (int i = 0; i < 3; i++) {
        fprintf(out, "part %d\n", i);
        CHECK(fflush(out) == 0);
        moment("flushed");
        CHECK(ftell(out) == 7 * (i + 1));
    }
    CHECK(fclose(out) == 0);
    puts("three parts");
    return 0;
}
