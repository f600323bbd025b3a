/* A file that was written beyond its end keeps its length and position.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0 && pwrite(file, "end", 3, 1 << 20) == 3 && lseek(file, 12345, SEEK_SET) == 12345);
    moment("with a hole");
    CHECK(lseek(file, 0, SEEK_CUR) == 12345 && lseek(file, 0, SEEK_END) == (1 << 20) + 3);
    puts("done");
    return 0;
}
