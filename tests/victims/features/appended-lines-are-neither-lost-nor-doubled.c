/* Lines in files that were opened for appending and for writing are there once after kills and restarts.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    FILE *buffered = fopen("buffered.log", "w");
    int appending = open("appended.log", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    int writing = open("written.log", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(buffered != NULL && appending >= 0 && writing >= 0);
    for (int line = 0; line < 300; line++) {
        CHECK(fprintf(buffered, "buffered line %d\n", line) > 0);
        CHECK(dprintf(appending, "appended line %d\n", line) > 0);
        CHECK(dprintf(writing, "written line %d\n", line) > 0);
        printf("line %d on standard output\n", line);
        if (line % 75 == 50)
            moment("in the middle");
    }
    CHECK(fclose(buffered) == 0 && close(appending) == 0 && close(writing) == 0);
    return 0;
}
