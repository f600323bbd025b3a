/* System V shared memory that is marked for removal, so that the program alone has it, is attached where it was after a
 * restart, at each of its places, and can be detached.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/ipc.h>
#include <sys/shm.h>

enum { BYTES = 10 * 4096 + 100 };

int main(void)
{
    int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    if (id < 0 && errno == ENOSYS)
        LACKS("System V shared memory");
    char *one = shmat(id, NULL, 0), *other = shmat(id, NULL, SHM_RDONLY);
    CHECK(one != (char *)-1 && other != (char *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
    strcpy(one + 4096, "in both");
    for (int life = 0; life < 2; life++) {
        moment("attached");
        CHECK(strcmp(other + 4096, "in both") == 0 && one[BYTES - 1] == life && other[2 * 4096] == 0);
        one[BYTES - 1] = (char)(life + 1);
        CHECK(other[BYTES - 1] == life + 1);
    }
    CHECK(shmdt(one) == 0 && shmdt(other) == 0);
    puts("attached");
    return 0;
}
