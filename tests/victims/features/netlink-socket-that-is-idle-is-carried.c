/* An idle netlink socket, as libraries keep them to ask for routes, can be asked again.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

static void ask(int over)
{
    struct {
        struct nlmsghdr header;
        struct rtgenmsg body;
    } request = {.header = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
    static char room[1 << 16];
    CHECK(send(over, &request, sizeof request, 0) == sizeof request);
    for (int done = 0; !done;) {
        ssize_t bytes = recv(over, room, sizeof room, 0);
        CHECK(bytes > 0);
        for (struct nlmsghdr *one = (struct nlmsghdr *)room; NLMSG_OK(one, bytes); one = NLMSG_NEXT(one, bytes)) {
            CHECK(one->nlmsg_type != NLMSG_ERROR);
            done |= one->nlmsg_type == NLMSG_DONE;
        }
    }
}

int main(void)
{
    struct sockaddr_nl at = {.nl_family = AF_NETLINK}, told;
    socklen_t length = sizeof told;
    int made = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    CHECK(made >= 0 && bind(made, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(made, (struct sockaddr *)&at, &length) == 0);
    ask(made);
    moment("idle");
    CHECK(getsockname(made, (struct sockaddr *)&told, &length) == 0 && told.nl_pid == at.nl_pid);
    ask(made);
    puts("answered");
    return 0;
}
