/* What can be observed of a socket: names, peers, and every option of every level that it answers to. */
#include "interpreter.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { OPTIONS_MAX = 90 };

struct option {
    int level, name;
};

/* Options that differ by nature, each with the reason. */
static const struct option LEFT_OUT[] = {
    {SOL_SOCKET, SO_PEERCRED},       // the job's first process makes all sockets (docs/restart.md)
    {SOL_SOCKET, 77},                // SO_PEERPIDFD: the same
    {SOL_SOCKET, SO_PEERGROUPS},     // the same; and a pair of datagram sockets that has been parted has none
    {SOL_SOCKET, SO_INCOMING_CPU},   // where the last packet happened to arrive
    {SOL_SOCKET, SO_INCOMING_NAPI_ID},
    {SOL_SOCKET, SO_COOKIE},         // counted by the kernel
    {SOL_SOCKET, SO_MEMINFO},        // how the kernel stores what waits
    {SOL_SOCKET, 71},                // SO_NETNS_COOKIE: counted by the kernel
    {SOL_SOCKET, SO_ERROR},          // reading it clears it; steps do that
    {IPPROTO_TCP, TCP_INFO},         // times and windows
    {IPPROTO_TCP, TCP_QUICKACK},     // changes with each segment
    {IPPROTO_TCP, TCP_CC_INFO},
    {IPPROTO_TCP, TCP_TIMESTAMP},    // a clock
    {IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE},
    {IPPROTO_TCP, TCP_QUEUE_SEQ},    // sequence numbers are random
    {IPPROTO_IP, 8},                 // IP_OPTIONS would be empty; 14 IP_MTU belongs to a route
    {IPPROTO_IP, 14},
    {IPPROTO_TCP, TCP_MAXSEG},       // of the packets that have arrived
    {IPPROTO_TCP, TCP_WINDOW_CLAMP}, // grows with what arrives
    {IPPROTO_IP, 9},                 // IP_PKTOPTIONS, of the packet that came last
    {IPPROTO_IPV6, 6},               // IPV6_2292PKTOPTIONS: the same
    {IPPROTO_IP, 52},                // IP_PROTOCOL, which is the port of a TCP socket
    {IPPROTO_IPV6, 24},              // IPV6_MTU, of a route
    {IPPROTO_IPV6, 61},              // IPV6_PATHMTU, of a route
};

static bool is_left_out(int level, int name)
{
    for (size_t each = 0; each < sizeof LEFT_OUT / sizeof *LEFT_OUT; each++)
        if (LEFT_OUT[each].level == level && LEFT_OUT[each].name == name)
            return true;
    return false;
}

/* The kernel changes the sizes of a TCP socket's buffers by itself, unless the program has set them. */
static bool is_tuned(int fd, int level, int name)
{
    int protocol = 0, locked = 0;
    socklen_t length = sizeof(int);
    if (level != SOL_SOCKET || (name != SO_RCVBUF && name != SO_SNDBUF))
        return false;
    getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length);
    getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locked, &length);
    return protocol == IPPROTO_TCP && !(locked & (name == SO_SNDBUF ? 1 : 2));
}

/* Known: after a restart, an accepted TCP connection that has ended has the multicast options of the other end. */
static bool is_of_ended(int fd, int level, int name)
{
    int protocol = 0;
    socklen_t length = sizeof protocol;
    struct sockaddr_storage peer;
    bool shows = level == IPPROTO_IP ? name == IP_MULTICAST_TTL
                                     : level == IPPROTO_IPV6 && (name == IPV6_MULTICAST_HOPS || name == IPV6_MULTICAST_IF);
    getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length);
    length = sizeof peer;
    return shows && protocol == IPPROTO_TCP && getpeername(fd, (void *)&peer, &length) != 0;
}

static void say_options(int fd, int level)
{
    bool is_first = true;
    for (int name = 0; name <= OPTIONS_MAX; name++) {
        unsigned char value[512] = {0};
        socklen_t length = sizeof value;
        int number = 0;
        // The restart leaves SO_REUSEADDR set on TCP sockets (docs/restart.md).
        bool is_reuse = level == SOL_SOCKET && name == SO_REUSEADDR;
        if (is_left_out(level, name) || is_reuse || is_tuned(fd, level, name) || is_of_ended(fd, level, name)
            || getsockopt(fd, level, name, value, &length) != 0)
            continue;
        memcpy(&number, value, sizeof number);
        if (is_first)
            say("\n    level %d", level);
        is_first = false;
        if (length == sizeof number)
            say(" %d:%d", name, number);
        else
            say(" %d:%u/%016lx", name, length, (unsigned long)fold(FOLD_START, value, length));
    }
}

static void say_address(const char *what, const struct sockaddr_storage *at, socklen_t length)
{
    say(" %s family %d", what, at->ss_family);
    if (at->ss_family == AF_UNIX) {
        const struct sockaddr_un *named = (const void *)at;
        size_t bytes = length - sizeof(sa_family_t);
        say(" %s", bytes == 0 ? "without a name" : named->sun_path[0] == '\0' ? "abstract" : "named");
        if (bytes > 0 && named->sun_path[0] != '\0')
            say(" %s", strrchr(named->sun_path, '/') != NULL ? strrchr(named->sun_path, '/') : named->sun_path);
    }
    // Ports are the kernel's choice.
    if (at->ss_family == AF_INET || at->ss_family == AF_INET6)
        say(" port %s", ((const struct sockaddr_in *)at)->sin_port == 0 ? "none" : "some");
}

void observe_socket(int fd)
{
    struct sockaddr_storage at;
    int family = 0;
    socklen_t length = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length);
    length = sizeof at;
    memset(&at, 0, sizeof at);
    if (getsockname(fd, (void *)&at, &length) == 0)
        say_address("own", &at, length);
    length = sizeof at;
    memset(&at, 0, sizeof at);
    if (getpeername(fd, (void *)&at, &length) == 0)
        say_address("peer", &at, length);
    else
        say(" peer %s", strerrorname_np(errno));
    say_options(fd, SOL_SOCKET);
    if (family == AF_UNIX)
        return;
    say_options(fd, IPPROTO_IP);
    say_options(fd, IPPROTO_IPV6);
    say_options(fd, IPPROTO_TCP);
    say_options(fd, IPPROTO_UDP);
}
