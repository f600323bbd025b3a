/* A small tree of processes in a ring: each number goes down a pipe to a child, over a pair of sockets to its child, which
 * counts in System V memory under a semaphore, with a message queue and a file in memory, and answers over TCP. One more
 * child has nothing to do, and may be killed without harm. Halfway it waits for a file named `gate`, busy all the while.
 * Objects that outlive processes are named after the working folder, so that a test finds what is left of them. */
#include "family.h"
#include <arpa/inet.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <time.h>

struct message {
    long type;
    uint64_t number;
};

static const struct timespec a_while = {0, 500000};
static struct {
    int set, segment, queue;
    mqd_t posix;
    uint64_t *counted, *in_file, *shared;
} held;
static char name[64];
static key_t key;

static void take_name(void)
{
    char folder[4096];
    CHECK(getcwd(folder, sizeof folder) != NULL);
    uint64_t sum = fold(FOLD_START, folder, strlen(folder));
    snprintf(name, sizeof name, "/standfast-test-%016lx", (unsigned long)sum);
    key = (key_t)(sum & 0x7fffffff) | 1;
}

static void make_objects(void)
{
    held.set = semget(key, 1, IPC_CREAT | IPC_EXCL | 0600);
    held.segment = shmget(key, 100, IPC_CREAT | IPC_EXCL | 0600);
    held.queue = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
    CHECK(held.set >= 0 && held.segment >= 0 && held.queue >= 0 && semctl(held.set, 0, SETVAL, 1) == 0);
    CHECK((held.counted = shmat(held.segment, NULL, 0)) != (void *)-1);
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 8};
    held.posix = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    CHECK(held.posix != (mqd_t)-1);
    int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && ftruncate(file, 4096) == 0);
    CHECK((held.in_file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) != MAP_FAILED && close(file) == 0);
    held.shared = share(4096);
}

static void remove_objects(void)
{
    CHECK(semctl(held.set, 0, IPC_RMID) == 0 && shmctl(held.segment, IPC_RMID, NULL) == 0);
    CHECK(msgctl(held.queue, IPC_RMID, NULL) == 0 && mq_unlink(name) == 0 && shm_unlink(name) == 0);
}

/* Ends with its parent, however that ends. */
static pid_t child(void)
{
    pid_t made = fork();
    CHECK(made >= 0 && (made > 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) == 0));
    return made;
}

/* Counts, and keeps the number for a moment wherever it can. */
static uint64_t count(uint64_t number)
{
    struct sembuf down = {.sem_op = -1, .sem_flg = SEM_UNDO}, up = {.sem_op = 1, .sem_flg = SEM_UNDO};
    struct message message = {1, number};
    CHECK(semop(held.set, &down, 1) == 0);
    CHECK(msgsnd(held.queue, &message, sizeof message.number, 0) == 0 && mq_send(held.posix, (char *)&number, 8, 3) == 0);
    uint64_t counted = ++*held.counted;
    CHECK(++*held.in_file == counted && ++*held.shared == counted);
    uint64_t again = 0;
    CHECK(mq_receive(held.posix, (char *)&again, 8, NULL) == 8 && again == number);
    CHECK(msgrcv(held.queue, &message, sizeof message.number, 1, 0) == sizeof message.number && message.number == number);
    CHECK(semop(held.set, &up, 1) == 0);
    return number * 3 + 1;
}

static bool take(int from, uint64_t *number)
{
    ssize_t got = recv(from, number, sizeof *number, MSG_WAITALL);
    CHECK(got == 0 || got == sizeof *number);
    return got > 0;
}

static void give(int to, uint64_t number)
{
    CHECK(write(to, &number, sizeof number) == sizeof number);
}

static void answer(int from, int to)
{
    for (uint64_t number; take(from, &number);)
        give(to, count(number));
    _exit(3);
}

static void pass_on(int from, int to, pid_t next)
{
    for (uint64_t number; read(from, &number, sizeof number) == sizeof number;)
        give(to, number);
    CHECK(close(to) == 0);
    reap(next, 3);
    _exit(2);
}

/* A connection over TCP, both of its ends here. */
static void connect_ends(int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), again = 1;
    // Without it a restart waits for a minute until the ports of the life before may be used.
    CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &again, sizeof again) == 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
    CHECK((ends[0] = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && connect(ends[0], (struct sockaddr *)&at, length) == 0);
    CHECK((ends[1] = accept(listener, NULL, NULL)) >= 0 && close(listener) == 0);
}

static int down[2], across[2], back[2];

static uint64_t ask(uint64_t number)
{
    give(down[1], number);
    CHECK(take(back[0], &number));
    return number;
}

static uint64_t work(uint64_t sum, long rounds)
{
    for (long round = 0; round < rounds; round++) {
        sum = fold(sum, &sum, sizeof sum) ^ ask((uint64_t)round);
        CHECK(nanosleep(&a_while, NULL) == 0);
    }
    return sum;
}

/* What is done here leaves no trace in the result, but is checked. */
static void wait_at_gate(void)
{
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    for (uint64_t turn = 0; access("gate", F_OK) != 0; turn++) {
        CHECK(ask(turn) == turn * 3 + 1);
        CHECK(nanosleep(&a_while, NULL) == 0);
    }
}

static void idle(void)
{
    CHECK(prctl(PR_SET_NAME, "idle") == 0 && close_range(3, ~0u, 0) == 0);
    for (;;)
        pause();
}

int main(void)
{
    int status;
    take_name();
    make_objects();
    CHECK(pipe(down) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, across) == 0);
    connect_ends(back);
    pid_t spare = child();
    if (spare == 0)
        idle();
    pid_t middle = child();
    if (middle == 0) {
        CHECK(close(down[1]) == 0 && close(back[0]) == 0);
        pid_t last = child();
        if (last == 0) {
            CHECK(close(across[0]) == 0 && close(down[0]) == 0);
            answer(across[1], back[1]);
        }
        CHECK(close(across[1]) == 0 && close(back[1]) == 0);
        pass_on(down[0], across[0], last);
    }
    CHECK(close(down[0]) == 0 && close(back[1]) == 0);
    CHECK(close(across[0]) == 0 && close(across[1]) == 0);
    uint64_t sum = work(FOLD_START, 20);
    wait_at_gate();
    sum = work(sum, 20);
    CHECK(close(down[1]) == 0);
    reap(middle, 2);
    CHECK(kill(spare, SIGKILL) == 0 && waitpid(spare, &status, 0) == spare && WTERMSIG(status) == SIGKILL);
    CHECK(*held.in_file == *held.counted && *held.shared == *held.counted && *held.counted >= 40);
    remove_objects();
    printf("ring: %016lx\n", (unsigned long)sum);
    return 0;
}
