/* A reader in another process sees the end of a pipe when the last of its writers is gone, not before; a writer sees that
 * of its readers.
 *
 * expect: survive
 */
#include "family.h"

int main(void)
{
    int ends[2], back[2], gates[2][2];
    pid_t writers[2];
    CHECK(pipe(ends) == 0 && pipe(back) == 0 && pipe(gates[0]) == 0 && pipe(gates[1]) == 0);
    pid_t reader = fork();
    CHECK(reader >= 0);
    if (reader == 0) {
        int words = 0;
        CHECK(close(ends[1]) == 0 && close(back[0]) == 0 && close(gates[0][1]) == 0 && close(gates[1][1]) == 0);
        for (int word; read(ends[0], &word, sizeof word) == sizeof word; words++)
            CHECK(word == words);
        CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
        _exit(words);
    }
    for (int i = 0; i < 2; i++) {
        CHECK((writers[i] = fork()) >= 0);
        if (writers[i] == 0) {
            CHECK(close(gates[0][1]) == 0 && close(gates[1][1]) == 0 && close(ends[0]) == 0);
            await_silence(gates[i][0]);
            put(ends[1], i);
            _exit(0);
        }
    }
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0 && close(back[1]) == 0);
    for (int i = 0; i < 2; i++) {
        await_call_of(reader, SYS_read);
        moment("two writers, then one");
        CHECK(waitpid(reader, NULL, WNOHANG) == 0);
        CHECK(close(gates[i][1]) == 0);
        reap(writers[i], 0);
    }
    reap(reader, 2);
    await_silence(back[0]);
    puts("the end came last");
    return 0;
}
