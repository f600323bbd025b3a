/* A System V segment that can be executed since the program's execution domain says so, whatever the permissions of the
 * segment are, still can.
 *
 * expect: survive
 */
#include "mapped.h"
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/shm.h>

int main(void)
{
    int id = shmget(IPC_PRIVATE, 4096, 0600 | IPC_CREAT);
    CHECK(id >= 0 && personality(READ_IMPLIES_EXEC) >= 0);
    unsigned char *code = shmat(id, NULL, 0), *fixed = shmat(id, NULL, SHM_RDONLY);
    CHECK(code != (void *)-1 && fixed != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
    if (!has_flag(code, " ex"))
        LACKS("READ_IMPLIES_EXEC for segments");
    for (int round = 0; round < 2; round++) {
        moment("attached");
        CHECK(has_flag(code, " ex") && has_flag(fixed, " ex") && has_flag(code, " wr") && !has_flag(fixed, " mw"));
    }
    // mov eax, 42; ret
    memcpy(code, "\xb8\x2a\0\0\0\xc3", 6);
    CHECK(((int (*)(void))(uintptr_t)fixed)() == 42);
    puts("executed");
    return 0;
}
