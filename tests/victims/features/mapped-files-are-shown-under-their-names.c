/* The list of mappings shows each mapped file under its name after a restart, at the same offset.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096, MAPS = 3, LINE_MAX_BYTES = 4600 };

/* The line of a mapping from its access on: "rw-s 00001000 fe:00 77 /path". */
static void line_of(const void *map, char *into)
{
    char line[LINE_MAX_BYTES];
    unsigned long start;
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file != NULL);
    into[0] = 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%lx-", &start) == 1 && start == (unsigned long)map)
            strcpy(into, strchr(line, ' '));
    CHECK(fclose(file) == 0 && into[0] != 0);
}

int main(void)
{
    static char before[MAPS][LINE_MAX_BYTES], now[LINE_MAX_BYTES];
    void *maps[MAPS];
    int file = open("mapped", O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && ftruncate(file, 4 * PAGE) == 0);
    maps[0] = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, PAGE);
    maps[1] = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 2 * PAGE);
    maps[2] = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 3 * PAGE);
    CHECK(close(file) == 0);
    for (int i = 0; i < MAPS; i++) {
        CHECK(maps[i] != MAP_FAILED);
        line_of(maps[i], before[i]);
        CHECK(strstr(before[i], "/mapped\n") != NULL);
    }
    moment("mapped");
    for (int i = 0; i < MAPS; i++) {
        line_of(maps[i], now);
        CHECK(strcmp(now, before[i]) == 0);
    }
    puts("the same names");
    return 0;
}
