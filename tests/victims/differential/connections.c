/* Steps that make sockets: pairs, listening sockets, connections over TCP and Unix sockets, and UDP. Ports are the
 * kernel's choice, since programs run at the same time. */
#include "interpreter.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_un local;
};

static socklen_t loopback(int family, union address *at)
{
    memset(at, 0, sizeof *at);
    at->any.sa_family = (sa_family_t)family;
    if (family == AF_INET6) {
        at->six.sin6_addr = in6addr_loopback;
        return sizeof at->six;
    }
    at->four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof at->four;
}

/* Above 99, the name is abstract. */
static socklen_t local(long number, union address *at)
{
    memset(at, 0, sizeof *at);
    at->local.sun_family = AF_UNIX;
    if (number < 100) {
        snprintf(at->local.sun_path, sizeof at->local.sun_path, "%s", path_of(number));
        return sizeof at->local;
    }
    unsigned long place = (unsigned long)fold(FOLD_START, state->base, strlen(state->base));
    int length = snprintf(at->local.sun_path + 1, sizeof at->local.sun_path - 1, "%016lx-%ld", place, number);
    return (socklen_t)(sizeof(sa_family_t) + 1 + (size_t)length);
}

/* socket-pair SLOT OTHER TYPE */
static long do_pair(const long *a)
{
    int ends[2];
    if (socketpair(AF_UNIX, (int)a[2], 0, ends) != 0)
        return -1;
    return place(ends[0], a[0]) | place(ends[1], a[1]);
}

/* socket SLOT FAMILY TYPE */
static long do_socket(const long *a)
{
    return place(socket((int)a[1], (int)a[2], 0), a[0]);
}

/* bind SLOT NAME: to a Unix name, or to the loopback address if it is no Unix socket. */
static long do_bind(const long *a)
{
    int family = 0;
    socklen_t length = sizeof family;
    union address at;
    if (getsockopt(fd_of(a[0]), SOL_SOCKET, SO_DOMAIN, &family, &length) != 0)
        return -1;
    length = family == AF_UNIX ? local(a[1], &at) : loopback(family, &at);
    return bind(fd_of(a[0]), &at.any, length);
}

static long do_listen(const long *a)
{
    return listen(fd_of(a[0]), (int)a[1]);
}

/* Connects a socket that does not wait. Over the loopback device a connection is made at once, but the kernel reports a TCP
 * connection only at the next call; after a restart, it does so once more where the socket does not block. */
static int connect_now(int fd, const union address *at, socklen_t length)
{
    int protocol = 0;
    socklen_t word = sizeof protocol;
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &word) == 0 && protocol == IPPROTO_TCP)
        connect(fd, &at->any, length);
    return connect(fd, &at->any, length);
}

/* connect SLOT TO: to the address of the socket in another slot. Never waits. */
static long do_connect(const long *a)
{
    union address at;
    socklen_t length = sizeof at;
    if (getsockname(fd_of(a[1]), &at.any, &length) != 0)
        return -1;
    int fd = fd_of(a[0]), flags = never_wait(fd);
    int result = connect_now(fd, &at, length);
    wait_again(fd, flags);
    return result;
}

/* dial SLOT TO TYPE: a new connection to the socket in another slot. */
static long do_dial(const long *a)
{
    union address at;
    socklen_t length = sizeof at;
    if (getsockname(fd_of(a[1]), &at.any, &length) != 0)
        return -1;
    int fd = socket(at.any.sa_family, (int)a[2] | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int result = connect_now(fd, &at, length), error = errno;
    wait_again(fd, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    if (place(fd, a[0]) != 0)
        return -1;
    errno = error;
    // It waits to be let in.
    return result != 0 && error == EALREADY ? 0 : result;
}

/* accept SLOT NEW-SLOT FLAGS */
static long do_accept(const long *a)
{
    int fd = fd_of(a[0]), flags = never_wait(fd);
    int made = accept4(fd, NULL, NULL, (int)a[2]);
    wait_again(fd, flags);
    return place(made, a[1]);
}

/* connection SLOT OTHER FAMILY: both ends of a TCP connection. */
static long do_connection(const long *a)
{
    union address at;
    socklen_t length = loopback(a[2] == AF_INET6 ? AF_INET6 : AF_INET, &at);
    int listener = socket(at.any.sa_family, SOCK_STREAM, 0), ends[2] = {-1, -1};
    if (listener < 0)
        return -1;
    if (bind(listener, &at.any, length) == 0 && listen(listener, 1) == 0 && getsockname(listener, &at.any, &length) == 0
        && (ends[0] = socket(at.any.sa_family, SOCK_STREAM, 0)) >= 0 && connect(ends[0], &at.any, length) == 0)
        ends[1] = accept(listener, NULL, NULL);
    close(listener);
    return place(ends[0], a[0]) | place(ends[1], a[1]);
}

/* datagrams SLOT OTHER FAMILY: two UDP sockets, connected to each other. */
static long do_datagrams(const long *a)
{
    union address at[2];
    socklen_t length = 0;
    int ends[2] = {-1, -1};
    for (int end = 0; end < 2; end++) {
        length = loopback(a[2] == AF_INET6 ? AF_INET6 : AF_INET, &at[end]);
        ends[end] = socket(at[end].any.sa_family, SOCK_DGRAM, 0);
        if (ends[end] < 0 || bind(ends[end], &at[end].any, length) != 0
            || getsockname(ends[end], &at[end].any, &length) != 0)
            return -1;
    }
    int result = connect(ends[0], &at[1].any, length) | connect(ends[1], &at[0].any, length);
    return result | place(ends[0], a[0]) | place(ends[1], a[1]);
}

/* send-to SLOT TO LENGTH SEED: a datagram to the address of the socket in another slot. */
static long do_send_to(const long *a)
{
    unsigned char bytes[2048];
    union address at;
    socklen_t length = sizeof at;
    if (getsockname(fd_of(a[1]), &at.any, &length) != 0)
        return -1;
    size_t count = (size_t)(a[2] & 0x7ff);
    make_pattern(bytes, count, a[3]);
    return sendto(fd_of(a[0]), bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL, &at.any, length);
}

const struct operation connection_operations[] = {
    {"socket-pair", do_pair},
    {"socket", do_socket},
    {"bind", do_bind},
    {"listen", do_listen},
    {"connect", do_connect},
    {"dial", do_dial},
    {"accept", do_accept},
    {"connection", do_connection},
    {"datagrams", do_datagrams},
    {"send-to", do_send_to},
    {0},
};
