/* Semaphores of System V that the program uses are refused by name: they go on in the kernel without it.
 *
 * expect: refuse "System V semaphores"
 */
#include "check.h"
#include <sys/sem.h>

int main(void)
{
    struct sembuf up = {.sem_op = 1}, down = {.sem_op = -1};
    int made = semget(IPC_PRIVATE, 2, 0600);
    if (made < 0)
        LACKS("semaphores of System V");
    CHECK(semop(made, &up, 1) == 0);
    moment("used");
    CHECK(semop(made, &down, 1) == 0 && semctl(made, 0, IPC_RMID) == 0);
    puts("up and down");
    return 0;
}
