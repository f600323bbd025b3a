/* Steps on sockets that are there: data, messages, descriptors and credentials in them, options, and shutting down. */
#include "interpreter.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { DATA_MAX = 1 << 17, DESCRIPTORS_MAX = 4 };

static unsigned char data[DATA_MAX];

static size_t length_of(long length)
{
    return length < 0 ? 0 : length > DATA_MAX ? DATA_MAX : (size_t)length;
}

/* send SLOT LENGTH SEED FLAGS */
static long do_send(const long *a)
{
    size_t length = length_of(a[1]);
    make_pattern(data, length, a[2]);
    return send(fd_of(a[0]), data, length, (int)a[3] | MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Says what one of the descriptors in a message is, and places it. */
static void receive_descriptor(int fd, long slot)
{
    struct stat found;
    CHECK(fstat(fd, &found) == 0);
    say(" descriptor of %o", found.st_mode & S_IFMT);
    if (place(fd, slot) != 0)
        say(" (not placed)");
}

static void say_control(struct msghdr *header, long slot)
{
    for (struct cmsghdr *each = CMSG_FIRSTHDR(header); each != NULL; each = CMSG_NXTHDR(header, each)) {
        size_t bytes = each->cmsg_len - CMSG_LEN(0);
        if (each->cmsg_level != SOL_SOCKET) {
            say(" control %d/%d of %zu bytes", each->cmsg_level, each->cmsg_type, bytes);
        } else if (each->cmsg_type == SCM_RIGHTS) {
            for (size_t at = 0; at < bytes / sizeof(int); at++)
                receive_descriptor(((int *)CMSG_DATA(each))[at], slot + (long)at);
        } else if (each->cmsg_type == SCM_CREDENTIALS) {
            struct ucred *sender = (void *)CMSG_DATA(each);
            // At the end of a stream the kernel shows ids of 0, which are other ones in a user namespace.
            if (strcmp(who(sender->pid), who(0)) == 0)
                say(" from %s", who(0));
            else
                say(" from %s, user %u", who(sender->pid), sender->uid);
        } else {
            // Timestamps are those of the restart (docs/restart.md).
            say(" control %d of %zu bytes", each->cmsg_type, bytes);
        }
    }
}

static void say_sender(const struct msghdr *header)
{
    const struct sockaddr *sender = header->msg_name;
    if (header->msg_namelen == 0)
        return;
    say(" sent by family %d", sender->sa_family);
    if (sender->sa_family == AF_UNIX) {
        const struct sockaddr_un *named = header->msg_name;
        size_t length = header->msg_namelen - sizeof(sa_family_t);
        // Addresses that the kernel chooses (autobind) differ from run to run.
        say(" of %zu bytes", named->sun_path[0] != '\0' ? strlen(named->sun_path) - strlen(state->base) : length);
    }
}

/* receive SLOT LENGTH FLAGS NEW-SLOT: one message. Descriptors in it are placed from the new slot on. */
static long do_receive(const long *a)
{
    struct iovec bytes = {data, length_of(a[1])};
    struct sockaddr_storage sender;
    char control[1024];
    struct msghdr header = {.msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &bytes, .msg_iovlen = 1,
                            .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd_of(a[0]), &header, (int)a[2] | MSG_DONTWAIT);
    if (got < 0)
        return -1;
    say_bytes(data, got);
    say_sender(&header);
    say_control(&header, a[3]);
    say(" flags %x", header.msg_flags);
    return got;
}

/* send-descriptors SLOT LENGTH SEED FIRST COUNT: descriptors of other slots in a message. */
static long do_send_descriptors(const long *a)
{
    struct iovec bytes = {data, length_of(a[1])};
    char control[CMSG_SPACE(sizeof(int) * DESCRIPTORS_MAX)] = {0};
    size_t count = (size_t)(a[4] < 1 ? 1 : a[4] > DESCRIPTORS_MAX ? DESCRIPTORS_MAX : a[4]);
    struct msghdr header = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control,
                            .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (size_t at = 0; at < count; at++)
        ((int *)CMSG_DATA(rights))[at] = fd_of(a[3] + (long)at);
    make_pattern(data, bytes.iov_len, a[2]);
    return sendmsg(fd_of(a[0]), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static long do_shut_down(const long *a)
{
    return shutdown(fd_of(a[0]), (int)a[1]);
}

/* set-option SLOT LEVEL NAME VALUE SECOND-VALUE */
static long do_set_option(const long *a)
{
    int values[2] = {(int)a[3], (int)a[4]};
    struct timeval time = {a[3], 0};
    if (a[1] == SOL_SOCKET && (a[2] == SO_RCVTIMEO || a[2] == SO_SNDTIMEO))
        return setsockopt(fd_of(a[0]), SOL_SOCKET, (int)a[2], &time, sizeof time);
    bool has_two = a[1] == SOL_SOCKET && a[2] == SO_LINGER;
    return setsockopt(fd_of(a[0]), (int)a[1], (int)a[2], values, has_two ? sizeof values : sizeof(int));
}

/* drain SLOT: reads all that is left, of whatever it is. */
static long do_drain(const long *a)
{
    int fd = fd_of(a[0]);
    errno = EINVAL;
    if (is_structured(fd))
        return -1;
    int flags = never_wait(fd);
    long reads = 0;
    uint64_t sum = FOLD_START;
    size_t total = 0;
    ssize_t got;
    while (reads < 1000 && (got = read(fd, data, sizeof data)) > 0) {
        sum = fold(sum, data, (size_t)got);
        total += (size_t)got;
        reads++;
    }
    int error = errno;
    wait_again(fd, flags);
    say(" [%zu bytes in all %016lx]", total, (unsigned long)sum);
    errno = error;
    return got < 0 ? -1 : 0;
}

const struct operation socket_operations[] = {
    {"send", do_send},
    {"receive", do_receive},
    {"send-descriptors", do_send_descriptors},
    {"shut-down", do_shut_down},
    {"set-option", do_set_option},
    {"drain", do_drain},
    {0},
};
