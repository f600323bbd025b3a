/* An executable that is lazily bound goes on after a restart, its data and its calls into the C library intact.
 *
 * expect: survive
 * flags: -Wl,-z,lazy
 */
#include "check.h"
#include <pthread.h>

static char zeroed[20000];
static char data[20000] = "data";
static _Thread_local int own = 5;

static void *thread(void *seen)
{
    own += 2;
    *(int *)seen = own;
    return NULL;
}

int main(void)
{
    pthread_t other;
    int seen;
    char *memory = malloc(100000);
    CHECK(memory != NULL);
    memset(memory, 'm', 100000);
    zeroed[15000] = 'z';
    data[15000] = 'd';
    moment("running");
    CHECK(memcmp(data, "data", 5) == 0 && data[15000] == 'd' && zeroed[15000] == 'z' && zeroed[0] == 0);
    CHECK(memory[0] == 'm' && memory[99999] == 'm');
    CHECK(pthread_create(&other, NULL, thread, &seen) == 0 && pthread_join(other, NULL) == 0);
    CHECK(seen == 7 && own == 5);
    memory = realloc(memory, 300000);
    CHECK(memory != NULL && memory[99999] == 'm');
    free(memory);
    puts("ran on");
    return 0;
}
