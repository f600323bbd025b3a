/* A thread that is blocked in the middle of a long write to a pipe writes every byte once.
 *
 * expect: survive
 */
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>

enum { BYTES = 300000 };
static int ends[2];
static char bytes[BYTES];
static volatile pid_t writing;

static void *writer(void *unused)
{
    (void)unused;
    writing = gettid();
    for (size_t done = 0; done < BYTES;) {
        ssize_t count = write(ends[1], bytes + done, BYTES - done);
        CHECK(count > 0);
        done += (size_t)count;
    }
    CHECK(close(ends[1]) == 0);
    return NULL;
}

int main(void)
{
    static char got[BYTES];
    pthread_t thread;
    size_t done = 0;
    uint64_t state = 9;
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (char)next_number(&state);
    CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, writer, NULL) == 0);
    await((volatile int *)&writing);
    await_call(writing, SYS_write);
    moment("full");
    for (ssize_t count; (count = read(ends[0], got + done, done < 50000 ? 50000 - done : BYTES)) > 0;) {
        done += (size_t)count;
        if (done == 50000)
            moment("some was read");
    }
    CHECK(done == BYTES && memcmp(got, bytes, BYTES) == 0 && pthread_join(thread, NULL) == 0);
    puts("every byte once");
    return 0;
}
