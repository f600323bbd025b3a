/* A file that was saved with the checkpoint, and that somebody else has changed since, is not overwritten: the restart is
 * refused.
 *
 * expect: refuse-restart "database" "another program has written"
 * run: --save-files=1M
 * meanwhile: printf X | dd of=database bs=1 seek=4096 conv=notrunc status=none
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char block[4096] = {7};
    int database = open("database", O_RDWR | O_CREAT, 0644);
    CHECK(database >= 0);
    for (int i = 0; i < 3; i++)
        CHECK(write(database, block, sizeof block) == sizeof block);
    moment("three blocks");
    puts("done");
    return 0;
}
