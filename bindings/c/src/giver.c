/* `standfast run --free-memory`: a thread of the library gives back the memory that the allocator holds as free, whenever
 * the supervisor is about to take a checkpoint. The thread waits for a number in the header to change. The supervisor
 * changes it while the program is frozen, and the thread sees the change when it repeats the interrupted wait.
 *
 * Other threads may hold the allocator's locks at that moment, but the program runs, so they release them. The supervisor
 * waits for the answer for a limited time. */
#include "internal.h"
#include <pthread.h>
#include <signal.h>

#define FUTEX_WAIT_PRIVATE 128
#define STACK_BYTES (256ul << 10)

static void *give(void *place)
{
    struct header *header = place;
    for (;;) {
        uint32_t wanted = atomic_load(&header->give_wanted);
        if (wanted == atomic_load(&header->give_done)) {
            call(SYS_futex, (long)&header->give_wanted, FUTEX_WAIT_PRIVATE, wanted, 0, 0, 0);
            continue;
        }
        standfast_call_allocators();
        atomic_store(&header->give_done, wanted);
    }
    return NULL;
}

void standfast_start_giver(struct header *header)
{
    standfast_hurry_allocators();
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* Signals are for the program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, &attributes, give, header) == 0)
        atomic_fetch_or(&header->flags, FLAG_GIVING);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}
