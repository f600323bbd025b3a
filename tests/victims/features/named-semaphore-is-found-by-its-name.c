/* A semaphore with a name is the one that others find by it after a restart, also where it has been removed meanwhile: the
 * C library maps it under a name for the time being.
 *
 * expect: survive
 * flags: -pthread
 */
#include "check.h"
#include <fcntl.h>
#include <semaphore.h>

int main(void)
{
    char name[64], path[80];
    snprintf(name, sizeof name, "/victim-%d-%ld", (int)getpid(), (long)time(NULL));
    snprintf(path, sizeof path, "/dev/shm/sem.%s", name + 1);
    sem_t *semaphore = sem_open(name, O_CREAT | O_EXCL, 0600, 5);
    CHECK(semaphore != SEM_FAILED);
    for (int life = 0; life < 3; life++) {
        moment("named");
        int file = open(path, O_RDONLY), value = 0;
        CHECK(file >= 0 && pread(file, &value, sizeof value, 0) == sizeof value && value == 5 + life);
        CHECK(sem_post(semaphore) == 0);
        CHECK(pread(file, &value, sizeof value, 0) == sizeof value && value == 6 + life && close(file) == 0);
    }
    CHECK(sem_unlink(name) == 0);
    puts("found three times");
    return 0;
}
