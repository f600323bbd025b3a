/* A child that has given up a capability which its parent has is refused by name.
 *
 * expect: refuse "capabilities"
 * needs: root
 */
#include "family.h"
#include <linux/capability.h>

int main(void)
{
    struct line line;
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct sets[2];
        be_child(&line);
        CHECK(syscall(SYS_capget, &header, sets) == 0);
        sets[0].effective &= ~(1u << CAP_NET_RAW);
        CHECK(syscall(SYS_capset, &header, sets) == 0);
        put(line.up[1], 1);
        await_silence(line.down[0]);
        _exit(3);
    }
    be_parent(&line);
    CHECK(get(line.up[0]) == 1);
    moment("less");
    CHECK(close(line.down[1]) == 0);
    reap(child, 3);
    puts("less");
    return 0;
}
