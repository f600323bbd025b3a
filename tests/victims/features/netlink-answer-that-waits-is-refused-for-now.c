/* A netlink socket with an answer that has not been read is refused, by name, until it is read.
 *
 * expect: refuse "answer"
 */
#include "check.h"
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/socket.h>

int main(void)
{
    static char answer[65536];
    struct {
        struct nlmsghdr header;
        struct rtgenmsg message;
    } question = {{sizeof question, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {AF_UNSPEC}};
    int made = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    if (made < 0)
        LACKS("netlink sockets");
    CHECK(send(made, &question, sizeof question, 0) == sizeof question);
    struct pollfd watched = {.fd = made, .events = POLLIN};
    CHECK(poll(&watched, 1, -1) == 1);
    moment("answered");
    CHECK(recv(made, answer, sizeof answer, 0) > (ssize_t)sizeof(struct nlmsghdr));
    puts("read");
    return 0;
}
