/* Semaphores that a process has used that has ended by now still have a time of last use. Those that were never used have
 * none.
 *
 * expect: survive
 */
#include "family.h"
#include <sys/ipc.h>
#include <sys/sem.h>

static int is_used(int id)
{
    struct semid_ds set;
    CHECK(semctl(id, 0, IPC_STAT, &set) == 0);
    return set.sem_otime != 0;
}

int main(void)
{
    int used = semget(IPC_PRIVATE, 2, 0600), unused = semget(IPC_PRIVATE, 2, 0600);
    CHECK(used >= 0 && unused >= 0 && semctl(unused, 1, SETVAL, 4) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct sembuf up = {1, 3, 0};
        _exit(semop(used, &up, 1) == 0 ? 3 : 4);
    }
    CHECK(child > 0);
    reap(child, 3);
    for (int life = 0; life < 2; life++) {
        moment("used");
        CHECK(is_used(used) && !is_used(unused));
        CHECK(semctl(used, 0, GETVAL) == 0 && semctl(used, 1, GETVAL) == 3 && semctl(unused, 1, GETVAL) == 4);
    }
    CHECK(semctl(used, 0, IPC_RMID) == 0 && semctl(unused, 0, IPC_RMID) == 0);
    puts("used");
    return 0;
}
