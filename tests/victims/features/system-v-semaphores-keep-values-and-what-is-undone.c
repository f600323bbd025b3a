/* System V semaphores keep their ids, keys, values and permissions; a process that waits for one goes on waiting, and what the
 * end of a process undoes is undone as before (SEM_UNDO).
 *
 * expect: survive
 */
#include "family.h"
#include <sys/sem.h>

enum { FIRST, GATE, LOCK, TAKEN, FULL, COUNT };
enum { SEMAPHORE_MAX = 32767 };

static void change(int set, int number, int by, int flags)
{
    struct sembuf operation = {.sem_num = number, .sem_op = by, .sem_flg = flags};
    CHECK(syscall(SYS_semop, set, &operation, 1) == 0);
}

int main(void)
{
    key_t key = 0x5f000000 + getpid();
    int set = semget(key, COUNT, IPC_CREAT | IPC_EXCL | 0640), removed = semget(IPC_PRIVATE, 1, 0600);
    if (set < 0 && errno == ENOSYS)
        LACKS("semaphores of System V");
    CHECK(set >= 0 && removed >= 0 && semctl(removed, 0, IPC_RMID) == 0);
    unsigned short values[COUNT] = {[FIRST] = 5, [LOCK] = 1, [TAKEN] = 3, [FULL] = SEMAPHORE_MAX};
    CHECK(semctl(set, 0, SETALL, values) == 0);
    struct line line;
    open_line(&line);
    pid_t waiter = fork();
    if (waiter == 0) {
        be_child(&line);
        change(set, GATE, -2, 0);
        _exit(3);
    }
    struct line holding;
    open_line(&holding);
    pid_t holder = fork();
    if (holder == 0) {
        be_child(&holding);
        change(set, LOCK, -1, SEM_UNDO);
        change(set, TAKEN, +4, SEM_UNDO);
        change(set, FULL, -7, SEM_UNDO);
        change(set, FULL, +7, 0);
        change(set, FIRST, -2, SEM_UNDO);
        change(set, FIRST, +2, SEM_UNDO);
        put(holding.up[1], 1);
        get(holding.down[0]);
        // Gives back what it has taken with and without an adjustment.
        change(set, TAKEN, -1, SEM_UNDO);
        _exit(4);
    }
    be_parent(&line);
    be_parent(&holding);
    CHECK(get(holding.up[0]) == 1);
    // Another process, which has ended, has used last what the holder still gives back.
    pid_t passing = fork();
    if (passing == 0) {
        change(set, TAKEN, +1, 0);
        change(set, TAKEN, -1, 0);
        _exit(5);
    }
    reap(passing, 5);
    await_call_of(waiter, SYS_semop);
    change(set, GATE, +1, 0);
    for (int life = 0; life < 2; life++) {
        moment("held");
        unsigned short now[COUNT];
        struct semid_ds status;
        CHECK(semget(key, COUNT, 0) == set && semctl(set, 0, GETALL, now) == 0);
        CHECK(now[FIRST] == 5 && now[GATE] == 1 && now[LOCK] == 0 && now[TAKEN] == 7 && now[FULL] == SEMAPHORE_MAX);
        CHECK(semctl(set, LOCK, GETPID) == holder && semctl(set, GATE, GETPID) == getpid());
        CHECK(semctl(set, 0, IPC_STAT, &status) == 0 && status.sem_nsems == COUNT);
        CHECK((status.sem_perm.mode & 0777) == 0640 && status.sem_perm.uid == geteuid());
    }
    put(holding.down[1], 1);
    reap(holder, 4);
    // FULL cannot take seven more: the kernel stops at the top.
    CHECK(semctl(set, LOCK, GETVAL) == 1 && semctl(set, TAKEN, GETVAL) == 3 && semctl(set, FIRST, GETVAL) == 5);
    CHECK(semctl(set, FULL, GETVAL) == SEMAPHORE_MAX);
    CHECK(state_of(waiter) != 'Z');
    change(set, GATE, +1, 0);
    reap(waiter, 3);
    CHECK(semctl(set, GATE, GETVAL) == 0);
    moment("all given back");
    int next = semget(IPC_PRIVATE, 1, 0600);
    CHECK(next >= 0 && next != set && semctl(next, 0, IPC_RMID) == 0);
    CHECK(semctl(set, 0, IPC_RMID) == 0 && semget(key, COUNT, 0) == -1 && errno == ENOENT);
    puts("given back");
    return 0;
}
