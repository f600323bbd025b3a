/* What one process writes into shared anonymous memory the others read, and a futex in it wakes them.
 *
 * expect: survive
 */
#include "family.h"
#include <linux/futex.h>

enum { CHILDREN = 3 };

int main(void)
{
    int *words = share(1 << 20), *far = share(1 << 16);
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        CHECK((children[i] = fork()) >= 0);
        if (children[i] == 0) {
            for (int round = 0; round < 3; round++) {
                while (__atomic_load_n(words, __ATOMIC_SEQ_CST) == round)
                    syscall(SYS_futex, words, FUTEX_WAIT, round, NULL, NULL, 0);
                CHECK(far[round] == round * 11);
                words[1024 * (i + 1)] += round + 1;
                __atomic_fetch_add(&words[1], 1, __ATOMIC_SEQ_CST);
            }
            _exit(0);
        }
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CHILDREN; i++)
            await_call_of(children[i], SYS_futex);
        far[round] = round * 11;
        moment("waiting");
        __atomic_store_n(words, round + 1, __ATOMIC_SEQ_CST);
        CHECK(syscall(SYS_futex, words, FUTEX_WAKE, CHILDREN, NULL, NULL, 0) >= 0);
        while (__atomic_load_n(&words[1], __ATOMIC_SEQ_CST) != CHILDREN * (round + 1))
            usleep(200);
        moment("added");
    }
    for (int i = 0; i < CHILDREN; i++) {
        reap(children[i], 0);
        CHECK(words[1024 * (i + 1)] == 6);
    }
    puts("one memory");
    return 0;
}
