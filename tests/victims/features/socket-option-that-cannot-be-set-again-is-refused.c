/* An option of a socket that can be set only when it is connected is refused by name: a restart sets all of them before.
 *
 * expect: refuse "option 37" "could not be set again"
 */
#include "check.h"
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM, 0), calling = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 1) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&address, &length) == 0);
    CHECK(connect(calling, (struct sockaddr *)&address, sizeof address) == 0);
    int called = accept(server, NULL, NULL);
    int wanted = SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_SOFTWARE;
    CHECK(called >= 0 && setsockopt(calling, SOL_SOCKET, SO_TIMESTAMPING, &wanted, sizeof wanted) == 0);
    moment("set");
    CHECK(send(calling, "a", 1, 0) == 1 && recv(called, (char[1]){0}, 1, 0) == 1);
    puts("still connected");
    return 0;
}
