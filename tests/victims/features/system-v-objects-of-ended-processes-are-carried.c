/* System V objects that a process of the job has made and left to others are carried over though that process has ended, as
 * scripts make and use them.
 *
 * expect: survive
 * meanwhile: key=$(($(stat -c %i .) % 2147483647)); ipcrm -S $key -M $key -Q $key || true
 */
#include "family.h"
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>

struct message {
    long type;
    char text[16];
};

int main(void)
{
    // Of what ended processes have left behind nobody can prove that it may be removed: `meanwhile` does it, which finds the
    // same key. What has it already was left by a test that failed.
    struct stat here;
    CHECK(stat(".", &here) == 0);
    key_t key = here.st_ino % 2147483647;
    semctl(semget(key, 0, 0), 0, IPC_RMID);
    msgctl(msgget(key, 0), IPC_RMID, NULL);
    shmctl(shmget(key, 0, 0), IPC_RMID, NULL);
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
