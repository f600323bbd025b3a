/* System V shared memory that lives on without the program is refused by name, with the remedy.
 *
 * expect: refuse "System V segment" "IPC_RMID"
 */
#include "check.h"
#include <sys/ipc.h>
#include <sys/shm.h>

int main(void)
{
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    if (id < 0 && errno == ENOSYS)
        LACKS("System V shared memory");
    char *map = shmat(id, NULL, 0);
    CHECK(map != (char *)-1);
    moment("attached");
    CHECK(shmctl(id, IPC_RMID, NULL) == 0 && shmdt(map) == 0);
    puts("removed");
    return 0;
}
