/* A deleted file that only mappings lead to any more, as named semaphores and shared memory of POSIX are used, is shared
 * with a child as before; so is one on a disk while a descriptor leads to it.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { LENGTH = 64 << 10, HALF = LENGTH / 2 };

static unsigned char *map_and_delete(const char *path, int *descriptor)
{
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    CHECK(file >= 0 && ftruncate(file, LENGTH) == 0);
    unsigned char *shared = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(shared != MAP_FAILED && unlink(path) == 0);
    if (descriptor)
        *descriptor = file;
    else
        CHECK(close(file) == 0);
    return shared;
}

int main(void)
{
    char name[64];
    int disk, status;
    snprintf(name, sizeof name, "/dev/shm/standfast-victim-%d", (int)getpid());
    unsigned char *memory = map_and_delete(name, NULL), *file = map_and_delete("scratch", &disk);
    snprintf(name, sizeof name, "/standfast-victim-%d", (int)getpid());
    sem_t *ready = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    CHECK(ready != SEM_FAILED && sem_unlink(name) == 0);
    memory[0] = 1;
    file[HALF] = 2;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        while (sem_wait(ready) == -1)
            CHECK(errno == EINTR);
        CHECK(memory[HALF] == 3 && file[0] == 4);
        memory[1] = file[1] = 5;
        return 0;
    }
    moment("deleted");
    CHECK(memory[0] == 1 && memory[1] == 0 && file[HALF] == 2 && file[0] == 0);
    memory[HALF] = 3;
    file[0] = 4;
    moment("changed");
    CHECK(pread(disk, name, 1, HALF) == 1 && name[0] == 2);
    CHECK(sem_post(ready) == 0 && wait(&status) == child && status == 0);
    CHECK(memory[1] == 5 && file[1] == 5 && pread(disk, name, 1, 1) == 1 && name[0] == 5);
    puts("what has no name is shared all the same");
    return 0;
}
