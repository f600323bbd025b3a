/* Children made with CLONE_FILES share the table of descriptors with their parent: what one opens, all have.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    enum { COUNT = 2 };
    volatile int *shared = share(4096);
    pid_t children[COUNT];
    for (int i = 0; i < COUNT; i++) {
        CHECK((children[i] = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL)) >= 0);
        if (children[i] == 0) {
            for (int round = 0; round < 3; round++) {
                while (shared[0] != 1 + round * COUNT + i)
                    usleep(200);
                shared[1] = open("/dev/null", O_WRONLY);
                shared[0] = 0;
            }
            _exit(0);
        }
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            shared[0] = 1 + round * COUNT + i;
            while (shared[0] != 0)
                usleep(200);
            moment("opened");
            CHECK(write(shared[1], "x", 1) == 1 && close(shared[1]) == 0);
        }
    }
    for (int i = 0; i < COUNT; i++)
        reap(children[i], 0);
    puts("one table");
    return 0;
}
