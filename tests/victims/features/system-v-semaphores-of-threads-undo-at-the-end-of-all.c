/* Threads undo what they have done to System V semaphores together, at the end of the last of them (SEM_UNDO), also after a
 * restart.
 *
 * expect: survive
 * flags: -pthread
 */
#include "family.h"
#include <pthread.h>
#include <sys/sem.h>

static int set;

static void change(int by, int flags)
{
    struct sembuf operation = {.sem_op = by, .sem_flg = flags};
    CHECK(semop(set, &operation, 1) == 0);
}

static void *taker(void *nothing)
{
    change(-3, SEM_UNDO);
    return nothing;
}

int main(void)
{
    struct line line;
    pthread_t thread;
    set = semget(IPC_PRIVATE, 1, 0600);
    if (set < 0)
        LACKS("semaphores of System V");
    CHECK(semctl(set, 0, SETVAL, 10) == 0);
    open_line(&line);
    pid_t child = fork();
    if (child == 0) {
        be_child(&line);
        CHECK(pthread_create(&thread, NULL, taker, NULL) == 0 && pthread_join(thread, NULL) == 0);
        CHECK(semctl(set, 0, GETVAL) == 7);
        put(line.up[1], 1);
        get(line.down[0]);
        CHECK(pthread_create(&thread, NULL, taker, NULL) == 0 && pthread_join(thread, NULL) == 0);
        CHECK(semctl(set, 0, GETVAL) == 4);
        _exit(5);
    }
    be_parent(&line);
    CHECK(get(line.up[0]) == 1);
    moment("taken by a thread that has ended");
    CHECK(semctl(set, 0, GETVAL) == 7);
    put(line.down[1], 1);
    reap(child, 5);
    CHECK(semctl(set, 0, GETVAL) == 10 && semctl(set, 0, IPC_RMID) == 0);
    puts("undone");
    return 0;
}
