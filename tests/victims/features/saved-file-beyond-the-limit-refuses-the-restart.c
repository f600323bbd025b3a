/* A file that is larger than those that are saved, and that was overwritten after the checkpoint, refuses the restart.
 *
 * expect: refuse-restart "database" "has been changed"
 * run: --save-files=8K
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
