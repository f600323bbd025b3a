/* Several processes wait for one pipe: each word reaches one of them, none is lost or doubled.
 *
 * expect: survive
 */
#include "family.h"

enum { READERS = 4, WORDS = 400 };

int main(void)
{
    int ends[2], *seen = share(WORDS * sizeof(int)), *taken = share(4096);
    pid_t readers[READERS];
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < READERS; i++) {
        CHECK((readers[i] = fork()) >= 0);
        if (readers[i] == 0) {
            CHECK(close(ends[1]) == 0);
            for (int word; read(ends[0], &word, sizeof word) == sizeof word;) {
                __atomic_fetch_add(&seen[word], 1, __ATOMIC_SEQ_CST);
                __atomic_fetch_add(taken, 1, __ATOMIC_SEQ_CST);
            }
            _exit(0);
        }
    }
    CHECK(close(ends[0]) == 0);
    for (int word = 0; word < WORDS; word++) {
        if (word % 100 == 0) {
            /* One that has been woken is in its call until it runs. */
            while (__atomic_load_n(taken, __ATOMIC_SEQ_CST) < word)
                usleep(200);
            for (int i = 0; i < READERS; i++)
                await_call_of(readers[i], SYS_read);
            CHECK(__atomic_load_n(taken, __ATOMIC_SEQ_CST) == word);
            moment("waiting");
        }
        put(ends[1], word);
    }
    CHECK(close(ends[1]) == 0);
    for (int i = 0; i < READERS; i++)
        reap(readers[i], 0);
    for (int word = 0; word < WORDS; word++)
        CHECK(seen[word] == 1);
    puts("each word once");
    return 0;
}
