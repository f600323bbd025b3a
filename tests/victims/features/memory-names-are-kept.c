/* The names that a program gives to anonymous memory are the same after a restart.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/mman.h>
#include <sys/prctl.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum { BYTES = 4 << 12 };

static int is_named(const char *map, const char *name)
{
    char line[512];
    unsigned long start;
    int found = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%lx-", &start) == 1 && start == (unsigned long)map)
            found = strstr(line, name) != NULL;
    CHECK(fclose(file) == 0);
    return found;
}

int main(void)
{
    char *map = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, map, BYTES, "first half") != 0)
        LACKS("names of memory (CONFIG_ANON_VMA_NAME)");
    CHECK(prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, map + BYTES, BYTES, "second half") == 0);
    map[0] = 'x';
    for (int life = 0; life < 2; life++) {
        moment("named");
        CHECK(is_named(map, "[anon:first half]") && is_named(map + BYTES, "[anon:second half]") && map[0] == 'x');
    }
    puts("named");
    return 0;
}
