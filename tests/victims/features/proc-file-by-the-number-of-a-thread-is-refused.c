/* A file of /proc that was opened by a thread's number, which /proc does not list, is refused.
 *
 * expect: refuse "/stat" "number of a thread"
 */
#include "proc_files.h"
#include <pthread.h>
#include <sys/syscall.h>

static volatile int goes, tid;

static void *thread(void *unused)
{
    tid = (int)syscall(SYS_gettid);
    await(&goes);
    return unused;
}

int main(void)
{
    pthread_t other;
    char path[64];
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    await(&tid);
    snprintf(path, sizeof path, "/proc/%d/stat", tid);
    int file = opened(path, O_RDONLY);
    moment("open");
    CHECK(atol(text_of(file)) == tid);
    goes = 1;
    CHECK(pthread_join(other, NULL) == 0);
    puts("told");
    return 0;
}
