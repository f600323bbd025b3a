/* Advice on System V shared memory is kept: a segment that children do not get is still kept from them.
 *
 * expect: survive
 */
#include "family.h"
#include <sys/mman.h>
#include <sys/shm.h>

enum { BYTES = 3 * 4096 };

/* Reports whether the process has memory there. */
static int is_mapped(void *at)
{
    unsigned char pages[3];
    return mincore(at, BYTES, pages) == 0;
}

int main(void)
{
    int id = shmget(IPC_PRIVATE, BYTES, 0600 | IPC_CREAT);
    char *own = shmat(id, NULL, 0), *passed_on = shmat(id, NULL, SHM_RDONLY);
    CHECK(id >= 0 && own != (void *)-1 && passed_on != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
    CHECK(madvise(own, BYTES, MADV_DONTFORK) == 0);
    for (int round = 0; round < 2; round++) {
        moment("advised");
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(!is_mapped(own) && is_mapped(passed_on) ? 0 : 1);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(is_mapped(own));
    }
    puts("its own");
    return 0;
}
