/* System V objects that a process of the job has made and left to others are carried over though that process has ended, as
 * scripts make and use them.
 *
 * expect: survive
 * meanwhile: ipcrm -S 0x5c5f5a01 -M 0x5c5f5a01 -Q 0x5c5f5a01 || true
 */
#include "family.h"
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

struct message {
    long type;
    char text[16];
};

int main(void)
{
    // Of what ended processes have left behind nobody can prove that it may be removed: `meanwhile` does it.
    key_t key = 0x5c5f5a01;
    pid_t maker = fork();
    if (maker == 0) {
        struct message message = {3, "left behind"};
        int set = semget(key, 2, IPC_CREAT | IPC_EXCL | 0600), queue = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
        int segment = shmget(key, 100, IPC_CREAT | IPC_EXCL | 0600);
        if (set < 0 && errno == ENOSYS)
            LACKS("System V objects");
        char *memory = shmat(segment, NULL, 0);
        CHECK(set >= 0 && queue >= 0 && memory != (char *)-1);
        strcpy(memory, "left behind");
        CHECK(semctl(set, 1, SETVAL, 6) == 0 && msgsnd(queue, &message, sizeof message.text, 0) == 0);
        _exit(7);
    }
    reap(maker, 7);
    moment("left behind");
    struct message message;
    int set = semget(key, 2, 0), queue = msgget(key, 0), segment = shmget(key, 100, 0);
    CHECK(set >= 0 && queue >= 0 && segment >= 0 && semctl(set, 1, GETVAL) == 6 && semctl(set, 0, GETVAL) == 0);
    char *memory = shmat(segment, NULL, 0);
    CHECK(memory != (char *)-1 && strcmp(memory, "left behind") == 0 && shmdt(memory) == 0);
    moment("found");
    CHECK(msgrcv(queue, &message, sizeof message.text, 3, IPC_NOWAIT) == sizeof message.text);
    CHECK(strcmp(message.text, "left behind") == 0);
    CHECK(semctl(set, 0, IPC_RMID) == 0 && msgctl(queue, IPC_RMID, NULL) == 0 && shmctl(segment, IPC_RMID, NULL) == 0);
    puts("found");
    return 0;
}
