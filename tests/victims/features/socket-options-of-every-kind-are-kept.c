/* What a program has set of its sockets is told by getsockopt after a restart as before, of each level.
 *
 * expect: survive
 */
#include "check.h"
#include <netinet/in.h>
#include <sys/socket.h>

enum { VALUE_MAX = 64, OPTIONS = 90, SOCKETS = 6 };

struct value {
    int told;
    unsigned char bytes[VALUE_MAX];
};

static const int levels[] = {SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP};
enum { LEVELS = sizeof levels / sizeof *levels };
static struct value before[SOCKETS][LEVELS][OPTIONS];

/* What the kernel counts, measures or names by itself. */
static int is_the_kernels(int level, int name)
{
    static const int general[] = {SO_ERROR, SO_PEERCRED, SO_INCOMING_CPU, 55 /* SO_MEMINFO */, SO_INCOMING_NAPI_ID,
                                  SO_COOKIE, 77 /* SO_PEERPIDFD */};
    static const int tcp[] = {11 /* TCP_INFO */, 24 /* TCP_TIMESTAMP */, 26 /* TCP_CC_INFO */};
    for (size_t i = 0; level == SOL_SOCKET && i < sizeof general / sizeof *general; i++)
        if (general[i] == name)
            return 1;
    for (size_t i = 0; level == IPPROTO_TCP && i < sizeof tcp / sizeof *tcp; i++)
        if (tcp[i] == name)
            return 1;
    return 0;
}

static void look(int made, int level, int name, struct value *into)
{
    socklen_t length = sizeof into->bytes;
    memset(into, 0, sizeof *into);
    into->told = getsockopt(made, level, name, into->bytes, &length) == 0 ? (int)length : -1;
}

/* What has an effect at once, takes no number, needs a reason or a right. */
static const int not_general[] = {SO_BINDTODEVICE, SO_ATTACH_FILTER, SO_DETACH_FILTER, SO_LOCK_FILTER, SO_LINGER,
                                  SO_RCVTIMEO, SO_SNDTIMEO, SO_REUSEPORT, 61 /* SO_TXTIME */, SO_SNDBUFFORCE,
                                  SO_RCVBUFFORCE, 62 /* SO_BINDTOIFINDEX */, SO_SNDBUF, SO_RCVBUF, SO_MARK,
                                  72 /* SO_BUF_LOCK */, SO_PRIORITY};
static const int not_of_ipv4[] = {3 /* IP_HDRINCL */, 4 /* IP_OPTIONS */, 16, 17, 32, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44,
                                  45, 46, 47, 48, 49};
static const int not_of_ipv6[] = {6, 17, 18, 19, 20, 21, 24, 26, 27, 28, 29, 34, 35, 36, 40, 41, 42, 43, 44, 45, 46, 47, 48,
                                  50, 54, 57, 59, 61};
static const int not_of_tcp[] = {12 /* TCP_QUICKACK */, 13 /* TCP_CONGESTION */, 14, 19, 20, 21, 22, 31, 38};
static const int not_of_udp[] = {1 /* UDP_CORK */, 100 /* UDP_ENCAP */};
static const struct {
    const int *names;
    size_t count;
} left_alone[LEVELS] = {{not_general, sizeof not_general / sizeof(int)},
                        {not_of_ipv4, sizeof not_of_ipv4 / sizeof(int)},
                        {not_of_ipv6, sizeof not_of_ipv6 / sizeof(int)},
                        {not_of_tcp, sizeof not_of_tcp / sizeof(int)},
                        {not_of_udp, sizeof not_of_udp / sizeof(int)}};

static int value_of(int level, int name)
{
    if (level == SOL_SOCKET && name == SO_MAX_PACING_RATE)
        return 1 << 20;
    if (level == SOL_SOCKET && name == SO_TIMESTAMPING)
        return 0x18;
    if (level == IPPROTO_IP && name == 51 /* IP_LOCAL_PORT_RANGE */)
        return 40010 << 16 | 40000;
    return level == IPPROTO_TCP ? 2 : 1;
}

static void set_all(int made, int level)
{
    for (int name = 1; name < OPTIONS; name++) {
        int value = value_of(levels[level], name), leave = 0;
        for (size_t i = 0; i < left_alone[level].count; i++)
            leave |= left_alone[level].names[i] == name;
        if (!leave)
            (void)setsockopt(made, levels[level], name, &value, sizeof value);
    }
}

/* Whether a socket of a family and kind has options of a level. */
static int has(const int kind[2], int level)
{
    switch (level) {
    case SOL_SOCKET:
        return 1;
    case IPPROTO_IP:
        return kind[0] != AF_UNIX;
    case IPPROTO_IPV6:
        return kind[0] == AF_INET6;
    default:
        return kind[0] != AF_UNIX && (kind[1] == SOCK_STREAM) == (level == IPPROTO_TCP);
    }
}

int main(void)
{
    static const int kinds[SOCKETS][2] = {{AF_INET, SOCK_DGRAM}, {AF_INET, SOCK_STREAM}, {AF_INET6, SOCK_STREAM},
                                          {AF_INET6, SOCK_DGRAM}, {AF_UNIX, SOCK_STREAM}, {AF_UNIX, SOCK_DGRAM}};
    int made[SOCKETS];
    for (int i = 0; i < SOCKETS; i++) {
        made[i] = socket(kinds[i][0], kinds[i][1], 0);
        if (made[i] < 0)
            LACKS("sockets of IPv6");
        for (int level = 0; level < LEVELS; level++)
            if (has(kinds[i], levels[level]))
                set_all(made[i], level);
        for (int level = 0; level < LEVELS; level++)
            for (int name = 0; name < OPTIONS; name++)
                if (!is_the_kernels(levels[level], name))
                    look(made[i], levels[level], name, &before[i][level][name]);
    }
    moment("set");
    int differ = 0;
    for (int i = 0; i < SOCKETS; i++)
        for (int level = 0; level < LEVELS; level++)
            for (int name = 0; name < OPTIONS; name++) {
                struct value now = {0};
                if (is_the_kernels(levels[level], name))
                    continue;
                look(made[i], levels[level], name, &now);
                if (memcmp(&now, &before[i][level][name], sizeof now) != 0)
                    differ += dprintf(2, "socket %d: option %d of level %d differs\n", i, name, levels[level]) > 0;
            }
    CHECK(differ == 0);
    puts("as they were set");
    return 0;
}
