/* With --files keep a program goes on with a data file as it is.
 *
 * expect: survive
 * restart: --files keep
 * no-rollback: what the later life wrote would be kept as well
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
    CHECK(pwrite(database, "X", 1, 4096) == 1);
    CHECK(lseek(database, 0, SEEK_CUR) == 3 * sizeof block);
    puts("done");
    return 0;
}
