/* Threads have execution domains of their own, which differ from that of the main thread.
 *
 * expect: survive
 * flags: -pthread
 */
#include "check.h"
#include <pthread.h>
#include <sys/personality.h>

enum { OWN = ADDR_NO_RANDOMIZE | STICKY_TIMEOUTS, OF_MAIN = ADDR_COMPAT_LAYOUT };

static volatile int ready, over;

static void *chooses(void *nothing)
{
    CHECK(personality(OWN) >= 0);
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    await(&over);
    CHECK(personality(0xffffffff) == OWN);
    return nothing;
}

static void *chooses_nothing(void *nothing)
{
    int inherited = personality(0xffffffff);
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    await(&over);
    CHECK(personality(0xffffffff) == inherited);
    return nothing;
}

int main(void)
{
    pthread_t one, other;
    CHECK(pthread_create(&one, NULL, chooses, NULL) == 0 && pthread_create(&other, NULL, chooses_nothing, NULL) == 0);
    while (ready < 2)
        usleep(200);
    CHECK(personality(OF_MAIN) >= 0);
    moment("chosen");
    moment("again");
    CHECK(personality(0xffffffff) == OF_MAIN);
    over = 1;
    CHECK(pthread_join(one, NULL) == 0 && pthread_join(other, NULL) == 0);
    puts("each its own");
    return 0;
}
