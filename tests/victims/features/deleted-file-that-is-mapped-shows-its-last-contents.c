/* A file with code that was changed after a checkpoint, and then deleted while a descriptor leads to it, shows its last
 * contents in a private mapping: the copy that a job has of its files with code is older.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 3 };

static char letters[PAGE * PAGES];

int main(void)
{
    int file = open("code", O_RDWR | O_CREAT | O_TRUNC, 0700), ends[2];
    memset(letters, 'a', sizeof letters);
    CHECK(file >= 0 && write(file, letters, sizeof letters) == sizeof letters && pipe(ends) == 0);
    char *code = mmap(NULL, sizeof letters, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    CHECK(code != MAP_FAILED && code[0] == 'a');
    moment("in place");
    CHECK(ftruncate(file, 2 * PAGE) == 0 && pwrite(file, "b", 1, 0) == 1 && unlink("code") == 0);
    moment("deleted");
    CHECK(code[0] == 'b' && code[1] == 'a' && code[PAGE] == 'a');
    CHECK(write(ends[1], code + 2 * PAGE, 1) == -1 && errno == EFAULT);
    puts("the last contents");
    return 0;
}
