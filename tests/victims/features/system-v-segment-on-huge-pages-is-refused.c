/* A System V segment on huge pages from the system's pool is refused by name.
 *
 * expect: refuse "huge pages"
 * needs: root
 */
#include "check.h"
#include <sys/shm.h>

enum { HUGE = 2 << 20 };

int main(void)
{
    int id = shmget(IPC_PRIVATE, HUGE, IPC_CREAT | SHM_HUGETLB | 0600);
    if (id < 0)
        LACKS("huge pages in its pool (vm.nr_hugepages)");
    char *map = shmat(id, NULL, 0);
    CHECK(map != (void *)-1);
    map[HUGE - 1] = 'x';
    moment("attached");
    CHECK(map[HUGE - 1] == 'x');
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    puts("huge");
    return 0;
}
