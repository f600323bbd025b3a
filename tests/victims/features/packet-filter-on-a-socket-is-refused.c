/* A packet filter on a socket (SO_ATTACH_FILTER) is refused by name.
 *
 * expect: refuse "SO_ATTACH_FILTER"
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <linux/filter.h>

int main(void)
{
    struct sock_filter all = {BPF_RET | BPF_K, 0, 0, 0xffffffff};
    struct sock_fprog program = {.len = 1, .filter = &all};
    int made = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(made >= 0 && setsockopt(made, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
    moment("filter");
    puts("filtered");
    return 0;
}
