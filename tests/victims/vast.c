/* Holds a reservation of a terabyte with 16 pages in use, or, with an argument `small`, 16 pages alone. Waits for a file
 * named `gate`. */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 16 };

int main(int argc, char **argv)
{
    const struct timespec a_while = {0, 100000};
    int small = argc > 1 && strcmp(argv[1], "small") == 0;
    size_t step = small ? PAGE : (1ull << 40) / PAGES;
    char *map = mmap(NULL, PAGES * step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(map != MAP_FAILED);
    for (size_t i = 0; i < PAGES; i++)
        map[i * step] = (char)(i + 1);
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    while (access("gate", F_OK) != 0)
        CHECK(nanosleep(&a_while, NULL) == 0);
    for (size_t i = 0; i < PAGES; i++)
        CHECK(map[i * step] == (char)(i + 1));
    puts("16 pages");
    return 0;
}
