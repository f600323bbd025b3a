/* A droppable mapping (MAP_DROPPABLE: the state of random number generators) is droppable after a restart, and empty: nobody
 * draws the same random numbers twice.
 *
 * expect: survive
 */
#include "mapped.h"
#include <sys/mman.h>

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

enum { BYTES = 4 << 12 };

int main(void)
{
    char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        LACKS("droppable mappings (Linux 6.11)");
    int restarted = getenv("VICTIM_MOMENTS") != NULL;
    memset(map, 'x', BYTES);
    moment("filled");
    CHECK(has_flag(map, " dp"));
    for (int i = 0; i < BYTES; i++)
        CHECK(map[i] == (restarted ? 0 : 'x'));
    memset(map, 'y', BYTES);
    puts("nothing is left");
    return 0;
}
