/* A System V segment on huge pages is refused by name also when no process has attached it.
 *
 * expect: refuse "huge pages"
 * needs: root
 * doctor-blind: it would have to attach the segment
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
    CHECK(shmdt(map) == 0);
    moment("detached");
    map = shmat(id, NULL, 0);
    CHECK(map != (void *)-1);
    CHECK(map[HUGE - 1] == 'x');
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    puts("huge");
    return 0;
}
