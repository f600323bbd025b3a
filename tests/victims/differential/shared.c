/* Steps on System V objects and POSIX message queues, and what can be observed of them. Their keys and names come
 * from the working folder, so that the harness can remove what a killed program has left. */
#include "interpreter.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

enum { MESSAGE_MAX = 4096, SEMAPHORES_MAX = 8 };

struct message {
    long type;
    unsigned char bytes[MESSAGE_MAX];
};

static key_t key_of(long number)
{
    uint64_t sum = fold(FOLD_START, state->base, strlen(state->base));
    return (key_t)((sum & 0x7ffffff0) | (unsigned long)number % OBJECTS | 8);
}

/* Forgets the id of an object that has been removed. Known: after a restart the kernel may give that id again. An object
 * that is marked for removal has no key. */
static int *unless_removed(int *id, int failure, key_t found, long number)
{
    if (failure || (found != key_of(number) && found != IPC_PRIVATE))
        *id = -1;
    return id;
}

static int *segment(long number)
{
    int *id = &state->segments[(unsigned long)number % OBJECTS];
    struct shmid_ds found = {0};
    int failure = shmctl(*id, IPC_STAT, &found);
    return unless_removed(id, failure, found.shm_perm.__key, number);
}

static int *semaphores(long number)
{
    int *id = &state->semaphores[(unsigned long)number % OBJECTS];
    struct semid_ds found = {0};
    int failure = semctl(*id, 0, IPC_STAT, &found);
    return unless_removed(id, failure, found.sem_perm.__key, number);
}

static int *queue(long number)
{
    int *id = &state->queues[(unsigned long)number % OBJECTS];
    struct msqid_ds found = {0};
    int failure = msgctl(*id, IPC_STAT, &found);
    return unless_removed(id, failure, found.msg_perm.__key, number);
}

static long keep(int *place, int id)
{
    if (id >= 0)
        *place = id;
    return id < 0 ? -1 : 0;
}

/* segment NUMBER PAGES MODE */
static long do_segment(const long *a)
{
    return keep(segment(a[0]), shmget(key_of(a[0]), (size_t)(a[1] & 0xff) * PAGE, IPC_CREAT | IPC_EXCL | (int)a[2]));
}

/* attach NUMBER MAPPING FLAGS */
static long do_attach(const long *a)
{
    return shmat(*segment(a[0]), mapping(a[1]), (int)a[2]) == (void *)-1 ? -1 : 0;
}

static long do_detach(const long *a)
{
    return shmdt(mapping(a[0]));
}

static long do_remove_segment(const long *a)
{
    return shmctl(*segment(a[0]), IPC_RMID, NULL);
}

static long do_lock_segment(const long *a)
{
    return shmctl(*segment(a[0]), a[1] ? SHM_LOCK : SHM_UNLOCK, NULL);
}

/* semaphores NUMBER COUNT MODE */
static long do_semaphores(const long *a)
{
    int count = (int)(a[1] % SEMAPHORES_MAX) + 1;
    return keep(semaphores(a[0]), semget(key_of(a[0]), count, IPC_CREAT | IPC_EXCL | (int)a[2]));
}

static long do_set_semaphore(const long *a)
{
    return semctl(*semaphores(a[0]), (int)a[1], SETVAL, (int)a[2]);
}

/* change-semaphore NUMBER WHICH CHANGE FLAGS */
static long do_change_semaphore(const long *a)
{
    struct sembuf change = {(unsigned short)a[1], (short)a[2], (short)a[3] | IPC_NOWAIT};
    return semop(*semaphores(a[0]), &change, 1);
}

static long do_remove_semaphores(const long *a)
{
    return semctl(*semaphores(a[0]), 0, IPC_RMID);
}

static long do_queue(const long *a)
{
    return keep(queue(a[0]), msgget(key_of(a[0]), IPC_CREAT | IPC_EXCL | (int)a[1]));
}

/* put-message NUMBER TYPE LENGTH SEED */
static long do_put_message(const long *a)
{
    struct message message = {.type = a[1]};
    size_t length = (size_t)a[2] % MESSAGE_MAX;
    make_pattern(message.bytes, length, a[3]);
    return msgsnd(*queue(a[0]), &message, length, IPC_NOWAIT);
}

/* get-message NUMBER TYPE FLAGS */
static long do_get_message(const long *a)
{
    struct message message = {0};
    ssize_t got = msgrcv(*queue(a[0]), &message, MESSAGE_MAX, a[1], IPC_NOWAIT | (int)a[2]);
    if (got >= 0)
        say(" type %ld", message.type);
    say_bytes(message.bytes, got);
    return got;
}

static long do_remove_queue(const long *a)
{
    return msgctl(*queue(a[0]), IPC_RMID, NULL);
}

static const char *name_of(long number)
{
    static __thread char name[64];
    snprintf(name, sizeof name, "/standfast-differential-%08x-%ld", (unsigned)key_of(0), (long)(number % OBJECTS));
    return name;
}

/* posix-queue SLOT NUMBER FLAGS MESSAGES BYTES */
static long do_posix_queue(const long *a)
{
    struct mq_attr wanted = {.mq_maxmsg = a[3], .mq_msgsize = a[4]};
    state->has_posix_queues = true;
    return place((int)mq_open(name_of(a[1]), (int)a[2], 0600, &wanted), a[0]);
}

void hold_posix_queues(void)
{
    for (int number = 0; state->has_posix_queues && number < OBJECTS; number++) {
        int held = FIRST_FD + SLOTS + number, opened = (int)mq_open(name_of(number), O_RDONLY);
        // What was held before may have lost its name.
        close(held);
        if (opened >= 0 && opened != held) {
            CHECK(dup3(opened, held, O_CLOEXEC) == held);
            close(opened);
        }
    }
}

/* put-posix-message SLOT PRIORITY LENGTH SEED */
static long do_put_posix(const long *a)
{
    unsigned char bytes[MESSAGE_MAX];
    struct timespec at_once = {0, 0};
    size_t length = (size_t)a[2] % MESSAGE_MAX;
    make_pattern(bytes, length, a[3]);
    return mq_timedsend(fd_of(a[0]), (char *)bytes, length, (unsigned)a[1], &at_once);
}

static long do_get_posix(const long *a)
{
    unsigned char bytes[MESSAGE_MAX * 2];
    struct timespec at_once = {0, 0};
    unsigned priority = 0;
    ssize_t got = mq_timedreceive(fd_of(a[0]), (char *)bytes, sizeof bytes, &priority, &at_once);
    if (got >= 0)
        say(" priority %u", priority);
    say_bytes(bytes, got);
    return got;
}

static long do_unlink_posix(const long *a)
{
    return mq_unlink(name_of(a[0]));
}

/* notify-posix SLOT SIGNAL: signal 0 takes the registration back. */
static long do_notify_posix(const long *a)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = (int)a[1], .sigev_value.sival_int = 7};
    return mq_notify(fd_of(a[0]), a[1] ? &event : NULL);
}

/* The program that runs beside this one, of the same user, may have been given a checkpoint, which attaches what seems to be
 * nobody's for a moment. */
enum { LOOKS = 5, LOOK_PAUSE = 300 };

static void observe_segment(int number)
{
    struct shmid_ds found;
    unsigned long attached = ~0ul;
    for (int look = 0; look < LOOKS && attached > 0; look++) {
        if (look > 0)
            usleep(LOOK_PAUSE);
        if (shmctl(*segment(number), IPC_STAT, &found) != 0)
            return;
        if (found.shm_nattch < attached)
            attached = found.shm_nattch;
    }
    say("\n  segment %d: %zu bytes mode %o attached %lu made by %s", number, found.shm_segsz, found.shm_perm.mode,
        attached, found.shm_perm.cuid == getuid() ? "this user" : "another user");
    say(" key %s", found.shm_perm.__key == key_of(number) ? "own" : found.shm_perm.__key == 0 ? "none" : "other");
}

static void observe_semaphores(int number)
{
    struct semid_ds found;
    unsigned short values[SEMAPHORES_MAX + 1];
    if (semctl(*semaphores(number), 0, IPC_STAT, &found) != 0)
        return;
    say("\n  semaphores %d: mode %o key %s", number, found.sem_perm.mode,
        found.sem_perm.__key == key_of(number) ? "own" : "other");
    if (semctl(state->semaphores[number], 0, GETALL, values) != 0)
        return;
    // The last process is a stranger after a restart if it had ended. Who waits is counted.
    for (int each = 0; each < (int)found.sem_nsems; each++)
        say(" [%d waiting %d %d]", values[each], semctl(state->semaphores[number], each, GETNCNT),
            semctl(state->semaphores[number], each, GETZCNT));
}

static void observe_queue(int number)
{
    struct msqid_ds found;
    if (msgctl(*queue(number), IPC_STAT, &found) != 0)
        return;
    say("\n  queue %d: mode %o messages %lu bytes %lu of %lu key %s", number, found.msg_perm.mode,
        (unsigned long)found.msg_qnum, (unsigned long)found.__msg_cbytes, (unsigned long)found.msg_qbytes,
        found.msg_perm.__key == key_of(number) ? "own" : "other");
}

void observe_shared_objects(void)
{
    for (int number = 0; number < OBJECTS; number++) {
        observe_segment(number);
        observe_semaphores(number);
        observe_queue(number);
    }
}

void remove_shared_objects(void)
{
    for (int number = 0; number < OBJECTS; number++) {
        shmctl(*segment(number), IPC_RMID, NULL);
        semctl(*semaphores(number), 0, IPC_RMID);
        msgctl(*queue(number), IPC_RMID, NULL);
        mq_unlink(name_of(number));
    }
}

const struct operation shared_operations[] = {
    {"segment", do_segment},
    {"attach", do_attach},
    {"detach", do_detach},
    {"remove-segment", do_remove_segment},
    {"lock-segment", do_lock_segment},
    {"semaphores", do_semaphores},
    {"set-semaphore", do_set_semaphore},
    {"change-semaphore", do_change_semaphore},
    {"remove-semaphores", do_remove_semaphores},
    {"queue", do_queue},
    {"put-message", do_put_message},
    {"get-message", do_get_message},
    {"remove-queue", do_remove_queue},
    {"posix-queue", do_posix_queue},
    {"put-posix-message", do_put_posix},
    {"get-posix-message", do_get_posix},
    {"unlink-posix-queue", do_unlink_posix},
    {"notify-posix", do_notify_posix},
    {0},
};
