/* What can be observed of the descriptors that steps have made: flags, owners, places, what waits in them, what the
 * kernel tells of them, and with whom they are shared. */
#include "interpreter.h"
#include <linux/kcmp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

/* Lines of /proc/PID/fdinfo that differ by nature: numbers of mounts, inodes and counters of the kernel's own, time
 * that passes (said in units elsewhere), and ids (said as actors elsewhere). Flags are said elsewhere, too. */
static const char *const LEFT_OUT[] = {"mnt_id", "ino", "eventfd-id", "it_value", "Pid", "NSpid", "tty-index", "flags"};

/* Says which is the first descriptor of any process that leads to the same open description. */
static void say_first(int fd)
{
    for (int number = 0; number <= state->actors[me].process; number++) {
        struct actor *actor = &state->actors[number];
        if (actor->pid == 0 || actor->process != number || !actor->is_there)
            continue;
        for (int slot = 0; slot < SLOTS; slot++) {
            if (actor->pid == getpid() && fd_of(slot) >= fd)
                break;
            if (syscall(SYS_kcmp, getpid(), actor->pid, KCMP_FILE, fd, fd_of(slot)) == 0) {
                say(" same as %d/%d", number, slot);
                return;
            }
        }
    }
}

static bool is_left_out(const char *line)
{
    size_t length = strcspn(line, ":");
    for (size_t each = 0; each < sizeof LEFT_OUT / sizeof *LEFT_OUT; each++)
        if (strlen(LEFT_OUT[each]) == length && strncmp(line, LEFT_OUT[each], length) == 0)
            return true;
    return false;
}

/* A lock's line names its owner by pid and its file by device and inode. A lock of flock(2) or of an open description
 * has many owners; the kernel shows the process that took it, which after a restart is another one. */
static void say_lock(const char *line)
{
    char kind[16], advice[16], type[16], start[32], end[32];
    int pid = 0;
    if (sscanf(line, "lock: %*d: %15s %15s %15s %d %*s %31s %31s", kind, advice, type, &pid, start, end) != 6) {
        say(" {%s}", line);
        return;
    }
    say(" {lock %s %s %s %s", kind, type, start, end);
    if (strcmp(kind, "POSIX") == 0)
        say(" of %s", who(pid));
    say("}");
}

/* An entry's file is named by inode and device. */
static void say_entry(char *line)
{
    char *rest = strstr(line, " pos:");
    if (rest == NULL)
        rest = strstr(line, " ino:");
    if (rest != NULL)
        *rest = '\0';
    for (char *space = line; (space = strstr(space, "  ")) != NULL;)
        memmove(space, space + 1, strlen(space));
    say(" {%s}", line);
}

static void say_watch(const char *line)
{
    unsigned wd = 0, mask = 0;
    const char *found = strstr(line, "mask:");
    sscanf(line, "inotify wd:%x", &wd);
    if (found != NULL)
        sscanf(found, "mask:%x", &mask);
    say(" {watch %u %x}", wd, mask);
}

static int by_text(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* The kernel numbers the locks on a file in the order in which their owners came. A restart takes them in another one. */
static void forget_number(char *lock)
{
    char *behind = strchr(lock + strlen("lock: "), ':');
    if (behind != NULL) {
        lock[strlen("lock: ")] = '0';
        memmove(lock + strlen("lock: 0"), behind, strlen(behind) + 1);
    }
}

static void say_information(int fd)
{
    char path[64], text[8192], *rest = text, *lines[256];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/thread-self/fdinfo/%d", fd);
    read_text(path, text, sizeof text);
    for (char *line; (line = strsep(&rest, "\n")) != NULL && count < 256;) {
        for (char *tab = line; (tab = strchr(tab, '\t')) != NULL;)
            *tab = ' ';
        if (strncmp(line, "lock: ", 6) == 0)
            forget_number(line);
        // Known: how far a queue's status was read with read(2) is forgotten.
        bool is_place_in_queue = strncmp(line, "pos:", 4) == 0 && strcmp(kind_of(fd), "a queue") == 0;
        if (line[0] != '\0' && !is_left_out(line) && !is_place_in_queue)
            lines[count++] = line;
    }
    // The kernel lists entries of epoll in an order of its own.
    qsort(lines, count, sizeof *lines, by_text);
    for (size_t each = 0; each < count; each++) {
        if (strncmp(lines[each], "lock:", 5) == 0)
            say_lock(lines[each]);
        else if (strncmp(lines[each], "tfd:", 4) == 0)
            say_entry(lines[each]);
        else if (strncmp(lines[each], "inotify ", 8) == 0)
            say_watch(lines[each]);
        else
            say(" {%s}", lines[each]);
    }
    const char *pid = strstr(text, "Pid:");
    if (pid != NULL)
        say(" process %s", who(atoi(pid + 4)));
}

/* Says which bytes others have locked, and how. Which of several locks on one byte the kernel names is open. */
static void say_locks_of_others(int fd, int command, const char *name)
{
    enum { BYTES = 256 };
    int before = F_UNLCK;
    for (int byte = 0; byte <= BYTES; byte++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = byte < BYTES};
        if (fcntl(fd, command, &lock) != 0)
            return;
        /* Known: which one of several is named may be another one after a restart. A byte has several only for reading. */
        if (byte == BYTES && lock.l_type != F_UNLCK)
            lock.l_type = F_RDLCK;
        if (lock.l_type != before)
            say(" %s %d from %d", name, lock.l_type, byte);
        before = lock.l_type;
    }
}

static void say_owner(int fd)
{
    struct f_owner_ex owner = {0};
    if (fcntl(fd, F_GETOWN_EX, &owner) != 0 || owner.pid == 0)
        return;
    int actor = 0;
    while (actor < ACTORS && state->actors[actor].tid != owner.pid)
        actor++;
    say(" owner %d/%d signal %d", owner.type, actor, fcntl(fd, F_GETSIG));
}

/* A checkpoint lets the receiving end take in what the other end has sent (docs/restart.md). */
static bool is_tcp(int fd)
{
    int protocol = 0;
    socklen_t length = sizeof protocol;
    return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 && protocol == IPPROTO_TCP;
}

static bool is_of_unix_datagrams(int fd)
{
    int type = 0, domain = 0;
    socklen_t length = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_DGRAM
        && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

static void say_kind(int fd, const struct stat *found)
{
    struct itimerspec time;
    int value = 0;
    if (S_ISREG(found->st_mode)) {
        // To truncate a queue changes the size that it shows, and nothing else. Known: a restart forgets that.
        long size = strcmp(kind_of(fd), "a queue") == 0 ? 0 : (long)found->st_size;
        say(" size %ld links %lu", size, (unsigned long)found->st_nlink);
        say(" seals %x", fcntl(fd, F_GET_SEALS));
        say_locks_of_others(fd, F_GETLK, "lock");
        say_locks_of_others(fd, F_OFD_GETLK, "description-lock");
    }
    if (S_ISDIR(found->st_mode))
        return;
    // TCP and terminals pass on in the background what has been written.
    if (strcmp(kind_of(fd), "a queue") != 0 && ioctl(fd, FIONREAD, &value) == 0)
        say(" waiting %d", is_tcp(fd) || isatty(fd) ? value > 0 : value);
    value = fcntl(fd, F_GETPIPE_SZ);
    if (value > 0)
        say(" pipe of %d", value);
    if (timerfd_gettime(fd, &time) == 0)
        say(" timer %ld %ld", (long)time.it_value.tv_sec / 100, (long)time.it_interval.tv_sec / 100);
    if (S_ISSOCK(found->st_mode))
        observe_socket(fd);
    if (isatty(fd))
        observe_terminal(fd);
}

/* Known: a restart forgets O_TMPFILE. It opens queues with O_LARGEFILE. */
static int flags_of(int fd, mode_t mode)
{
    int flags = fcntl(fd, F_GETFL);
    bool is_queue = strcmp(kind_of(fd), "a queue") == 0;
    return S_ISREG(mode) && !is_queue ? flags & ~O_TMPFILE : flags & ~0100000;
}

/* Known: how much more fits a pipe depends on the pages in which its bytes lie, fewer of them after a restart. */
static int events_of_pipe(int fd, int events)
{
    int unread = 0;
    return ioctl(fd, FIONREAD, &unread) == 0 && unread > 0 ? events & ~POLLOUT : events;
}

/* The kernel takes what is written to a terminal to its other side on a thread of its own. */
static void await_arrivals(int terminal)
{
    int before = 0, now = 0;
    for (int same = 0; same < 5; same = now == before ? same + 1 : 0) {
        before = now;
        usleep(1000);
        if (ioctl(terminal, FIONREAD, &now) != 0)
            return;
    }
}

static void say_descriptor(int slot)
{
    int fd = fd_of(slot);
    struct stat found;
    int flags = fcntl(fd, F_GETFD);
    if (flags < 0)
        return;
    if (isatty(fd))
        await_arrivals(fd);
    CHECK(fstat(fd, &found) == 0);
    struct pollfd polled = {.fd = fd, .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP};
    // A restart forgets what fchmod(2) has done to a socket.
    bool has_own_mode = !S_ISSOCK(found.st_mode) && strcmp(kind_of(fd), "pipe:") != 0;
    mode_t mode = has_own_mode ? found.st_mode : found.st_mode & S_IFMT;
    say("\n  descriptor %d: %s fd %x fl %x mode %o", slot, kind_of(fd), flags, flags_of(fd, found.st_mode), mode);
    // How much fits a Unix socket depends on the pieces in which what has been sent waits there.
    int unread = 0;
    // What a datagram socket has sent elsewhere than to its peer does not count as sent by it after a restart.
    if (S_ISSOCK(found.st_mode) && !is_tcp(fd)
        && (is_of_unix_datagrams(fd) || (ioctl(fd, SIOCOUTQ, &unread) == 0 && unread > 0)))
        polled.events &= ~POLLOUT;
    // Whether an edge-triggered entry of an epoll instance reports an event twice is open (docs/files.md).
    if (strcmp(kind_of(fd), "anon_inode:[eventpoll]") != 0 && poll(&polled, 1, 0) >= 0)
        say(" events %x", S_ISFIFO(found.st_mode) ? events_of_pipe(fd, polled.revents) : polled.revents);
    say_owner(fd);
    say_kind(fd, &found);
    say_first(fd);
    say_information(fd);
}

void observe_descriptors(void)
{
    for (int slot = 0; slot < SLOTS; slot++)
        say_descriptor(slot);
}
