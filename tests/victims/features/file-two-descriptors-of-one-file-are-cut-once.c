/* A file with two open file descriptions is cut back once, and each goes on where it stood.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

int main(void)
{
    char text[16];
    int out = open("file", O_WRONLY | O_CREAT | O_TRUNC, 0644), in = open("file", O_RDONLY);
    CHECK(out >= 0 && in >= 0 && write(out, "abcdef", 6) == 6 && read(in, text, 2) == 2);
    int same = dup(in);
    CHECK(same >= 0);
    moment("two of the first, one dup");
    CHECK(lseek(same, 0, SEEK_CUR) == 2 && lseek(out, 0, SEEK_CUR) == 6);
    CHECK(write(out, "ghi", 3) == 3 && read(same, text, sizeof text) == 7 && memcmp(text, "cdefghi", 7) == 0);
    CHECK(lseek(in, 0, SEEK_CUR) == 9);
    moment("at the end");
    CHECK(read(in, text, 1) == 0);
    puts("done");
    return 0;
}
