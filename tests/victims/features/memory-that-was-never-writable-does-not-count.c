/* Memory that has never been writable does not count as committed after a restart either: code, a mapped file, and memory
 * that was reserved to be read. What was writable once still counts.
 *
 * expect: survive
 */
#include "mapped.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
static const char text[PAGE] = "what a file holds";

static void *mapped(int protection, int flags, int file)
{
    void *at = mmap(NULL, PAGE, protection, MAP_PRIVATE | flags, file, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

int main(void)
{
    int file = open("file", O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && write(file, text, sizeof text) == sizeof text);
    const char *read_only = mapped(PROT_READ, 0, file), *empty = mapped(PROT_READ, MAP_ANONYMOUS, -1);
    char *closed = mapped(PROT_READ | PROT_WRITE, 0, file);
    closed[0] = 'W';
    CHECK(mprotect(closed, PAGE, PROT_READ) == 0 && close(file) == 0);
    moment("mapped");
    CHECK(strcmp(read_only, text) == 0 && empty[0] == 0 && strcmp(closed + 1, text + 1) == 0 && closed[0] == 'W');
    CHECK(!has_flag((const void *)main, " ac") && !has_flag(read_only, " ac") && !has_flag(empty, " ac"));
    CHECK(has_flag(closed, " ac"));
    CHECK(mprotect((void *)empty, PAGE, PROT_READ | PROT_WRITE) == 0 && has_flag(empty, " ac"));
    ((char *)empty)[0] = 'E';
    moment("written");
    CHECK(empty[0] == 'E' && has_flag(empty, " ac") && !has_flag(read_only, " ac"));
    puts("what counts counts");
    return 0;
}
