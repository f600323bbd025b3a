/* Urgent data of a TCP connection that has not been read is refused, by name, until it is read.
 *
 * expect: refuse "urgent data"
 */
#include "check.h"
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), made = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &bytes) == 0);
    CHECK(connect(made, (struct sockaddr *)&at, sizeof at) == 0);
    int accepted = accept(listener, NULL, NULL);
    CHECK(accepted >= 0 && send(made, "!", 1, MSG_OOB) == 1);
    struct pollfd watched = {.fd = accepted, .events = POLLPRI};
    CHECK(poll(&watched, 1, -1) == 1);
    moment("sent");
    char byte = 0;
    CHECK(recv(accepted, &byte, 1, MSG_OOB) == 1 && byte == '!');
    puts("read");
    return 0;
}
