/* A private mapping from the middle of a file shows that part, and zeros behind the end of the file in its last page.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

int main(void)
{
    char page[PAGE];
    int file = open("input", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0);
    for (int i = 0; i < 3; i++) {
        memset(page, '0' + i, PAGE);
        CHECK(write(file, page, i == 2 ? 100 : PAGE) > 0);
    }
    char *untouched = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, file, PAGE);
    char *written = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, PAGE);
    CHECK(untouched != MAP_FAILED && written != MAP_FAILED && close(file) == 0);
    written[PAGE + 200] = 'z'; /* behind the end of the file, in its last page: allowed, and ours */
    moment("mapped");
    CHECK(untouched[0] == '1' && untouched[PAGE] == '2' && untouched[PAGE + 99] == '2' && untouched[PAGE + 100] == 0);
    CHECK(written[0] == '1' && written[PAGE + 99] == '2' && written[PAGE + 199] == 0 && written[PAGE + 200] == 'z');
    puts("the middle of a file");
    return 0;
}
