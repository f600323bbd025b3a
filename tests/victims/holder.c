/* Holds one thing that leads out of the program or cannot be carried over, named by its first argument, until a file named
 * `gate` appears; then uses it, lets it go and ends well. The second argument says where it leads: a port, a path. */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pty.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>

static void wait_at_gate(void)
{
    const struct timespec a_while = {0, 1000000};
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    while (access("gate", F_OK) != 0)
        CHECK(nanosleep(&a_while, NULL) == 0);
}

static void hold_userfault(void)
{
    /* UFFD_USER_MODE_ONLY, which needs no privilege. */
    int faults = (int)syscall(SYS_userfaultfd, 1);
    CHECK(faults >= 0);
    wait_at_gate();
    CHECK(close(faults) == 0);
}

static void use(int made)
{
    wait_at_gate();
    CHECK(send(made, "still here", 10, 0) == 10 && close(made) == 0);
}


/* The connection is one that the other end has reset, once the gate is open. */
static void hold_until_reset(int made)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = made};
    int instance = epoll_create1(EPOLL_CLOEXEC), one = 1;
    socklen_t bytes = sizeof one;
    char byte;
    CHECK(instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, made, &event) == 0);
    CHECK(setsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0);
    wait_at_gate();
    CHECK(epoll_wait(instance, &event, 1, -1) == 1 && event.data.fd == made && event.events & EPOLLHUP);
    CHECK(read(made, &byte, 1) == -1 && errno == ECONNRESET);
    CHECK(read(made, &byte, 1) == 0);
    CHECK(send(made, "still here", 10, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    one = 0;
    CHECK(getsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &one, &bytes) == 0 && one == 1 && close(made) == 0);
}

static int connected_to_port(int kind, const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int made = socket(AF_INET, kind, 0);
    at.sin_port = htons((uint16_t)atoi(port));
    CHECK(made >= 0 && connect(made, (struct sockaddr *)&at, sizeof at) == 0);
    return made;
}

static int connected_to_path(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(strlen(path) < sizeof at.sun_path);
    strcpy(at.sun_path, path);
    CHECK(made >= 0 && connect(made, (struct sockaddr *)&at, sizeof at) == 0);
    return made;
}

static void hold_pipe(const char *path)
{
    int writer = open(path, O_WRONLY);
    CHECK(writer >= 0);
    wait_at_gate();
    CHECK(write(writer, "still here", 10) == 10 && close(writer) == 0);
}

static void hold_semaphores(int id)
{
    struct sembuf up = {.sem_op = 1}, down = {.sem_op = -1};
    CHECK(semop(id, &up, 1) == 0);
    wait_at_gate();
    CHECK(semop(id, &down, 1) == 0);
}

static void hold_segment(int id)
{
    char *memory = shmat(id, NULL, 0);
    CHECK(memory != (char *)-1);
    wait_at_gate();
    CHECK(shmdt(memory) == 0);
}

/* Makes it behind the gate, and keeps it for ever while there is a file `linger`. */
static void hold_late_segment(int key)
{
    wait_at_gate();
    int id = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0600);
    char *memory = shmat(id, NULL, 0);
    CHECK(memory != (char *)-1 && shmdt(memory) == 0);
    if (access("linger", F_OK) == 0) {
        int told = open("made", O_WRONLY | O_CREAT, 0644);
        CHECK(told >= 0 && close(told) == 0);
        for (;;)
            pause();
    }
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
}

static void hold_messages(int id)
{
    struct {
        long type;
        char text[10];
    } message = {1, "still here"};
    CHECK(msgsnd(id, &message, sizeof message.text, 0) == 0);
    wait_at_gate();
    CHECK(msgrcv(id, &message, sizeof message.text, 1, IPC_NOWAIT) == sizeof message.text);
}

/* `name` is taken away by the first that lets go. */
static void hold_queue(const char *name)
{
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, NULL);
    CHECK(queue != (mqd_t)-1 && mq_send(queue, "still here", 10, 0) == 0);
    wait_at_gate();
    CHECK(mq_send(queue, "still here", 10, 0) == 0 && (mq_unlink(name) == 0 || errno == ENOENT));
}

/* `path` leads to its slave. */
static void hold_terminal(const char *path)
{
    int master, slave;
    char line[16];
    CHECK(openpty(&master, &slave, NULL, NULL, NULL) == 0 && symlink(ttyname(slave), path) == 0);
    wait_at_gate();
    CHECK(write(master, "still here\n", 11) == 11 && read(slave, line, sizeof line) == 11);
}

/* Watches a pipe that is nowhere but in a message to whoever listens at `path`. */
static void hold_watch(const char *path)
{
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
    int to = connected_to_path(path), instance = epoll_create1(EPOLL_CLOEXEC), line[2];
    CHECK(pipe(line) == 0 && instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, line[0], &event) == 0);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &line[0], sizeof(int));
    CHECK(sendmsg(to, &message, 0) == 1);
    CHECK(close(line[0]) == 0 && close(line[1]) == 0 && close(to) == 0);
    wait_at_gate();
    CHECK(epoll_wait(instance, &event, 1, -1) == 1 && event.data.u32 == 7 && close(instance) == 0);
}

/* Has a child that leads a session on the terminal at `path`, without having it open. */
static void hold_session(const char *path)
{
    int told[2], status;
    char byte;
    CHECK(pipe(told) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int terminal;
        CHECK(setsid() == getpid() && (terminal = open(path, O_RDWR)) >= 0 && tcgetsid(terminal) == getpid());
        CHECK(close(terminal) == 0 && close(told[1]) == 0 && close(told[0]) == 0);
        for (;;)
            pause();
    }
    CHECK(close(told[1]) == 0 && read(told[0], &byte, 1) == 0);
    wait_at_gate();
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);
}

/* Listens without SO_REUSEADDR, and once the gate is open leaves a connection behind that lingers at its port. One that is
 * `alone` sees to it that nobody can bind the port meanwhile. One that is `bound` does not listen before the gate is open,
 * and then lets others share the port with the connection. Its port is in a file `port`. */
static void hold_server(const char *kind)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), off = 0, on = 1;
    int is_bound = strcmp(kind, "bound") == 0;
    char byte;
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(is_bound || listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
    FILE *port = fopen("port", "w");
    CHECK(port && fprintf(port, "%d", ntohs(at.sin_port)) > 0 && fclose(port) == 0);
    wait_at_gate();
    if (strcmp(kind, "alone") == 0)
        CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &off, sizeof off) == 0);
    if (is_bound)
        CHECK(listen(listener, 1) == 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(client >= 0 && connect(client, (struct sockaddr *)&at, sizeof at) == 0);
    int accepted = accept(listener, NULL, NULL);
    /* Whoever closes first lingers. */
    CHECK(accepted >= 0 && close(accepted) == 0 && read(client, &byte, 1) == 0 && close(client) == 0);
    int told = open("lingering", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    while (access("end", F_OK) != 0)
        usleep(1000);
    CHECK(close(listener) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 || argc == 3);
    if (strcmp(argv[1], "userfault") == 0)
        hold_userfault();
    else if (strcmp(argv[1], "tcp") == 0)
        use(connected_to_port(SOCK_STREAM, argv[2]));
    else if (strcmp(argv[1], "udp") == 0)
        use(connected_to_port(SOCK_DGRAM, argv[2]));
    else if (strcmp(argv[1], "unix") == 0)
        use(connected_to_path(argv[2]));
    else if (strcmp(argv[1], "tcp-until-reset") == 0)
        hold_until_reset(connected_to_port(SOCK_STREAM, argv[2]));
    else if (strcmp(argv[1], "unix-until-reset") == 0)
        hold_until_reset(connected_to_path(argv[2]));
    else if (strcmp(argv[1], "server") == 0)
        hold_server(argv[2]);
    else if (strcmp(argv[1], "pipe") == 0)
        hold_pipe(argv[2]);
    else if (strcmp(argv[1], "terminal") == 0)
        hold_terminal(argv[2]);
    else if (strcmp(argv[1], "watch") == 0)
        hold_watch(argv[2]);
    else if (strcmp(argv[1], "session") == 0)
        hold_session(argv[2]);
    else if (strcmp(argv[1], "semaphores") == 0)
        hold_semaphores(atoi(argv[2]));
    else if (strcmp(argv[1], "segment") == 0)
        hold_segment(atoi(argv[2]));
    else if (strcmp(argv[1], "late-segment") == 0)
        hold_late_segment(atoi(argv[2]));
    else if (strcmp(argv[1], "messages") == 0)
        hold_messages(atoi(argv[2]));
    else if (strcmp(argv[1], "queue") == 0)
        hold_queue(argv[2]);
    else
        CHECK(!"a known thing to hold");
    printf("holder: let go of %s\n", argv[1]);
    return 0;
}
