/* A child that has given up a capability which its parent has is without it after a restart, and the parent still has it.
 *
 * expect: survive
 * needs: root
 */
#include "family.h"
#include <linux/capability.h>

static struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

int main(void)
{
    struct line line;
    struct __user_cap_data_struct before[2], now[2];
    open_line(&line);
    CHECK(syscall(SYS_capget, &header, before) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        before[0].effective &= ~(1u << CAP_NET_RAW);
        before[0].permitted &= ~(1u << CAP_NET_RAW | 1u << CAP_SYS_ADMIN);
        before[0].effective &= before[0].permitted;
        CHECK(syscall(SYS_capset, &header, before) == 0);
        put(line.up[1], 1);
        await_silence(line.down[0]);
        CHECK(syscall(SYS_capget, &header, now) == 0 && memcmp(before, now, sizeof now) == 0);
        _exit(3);
    }
    be_parent(&line);
    CHECK(get(line.up[0]) == 1);
    moment("less");
    CHECK(syscall(SYS_capget, &header, now) == 0 && memcmp(before, now, sizeof now) == 0);
    moment("less still");
    CHECK(close(line.down[1]) == 0);
    reap(child, 3);
    puts("less");
    return 0;
}
