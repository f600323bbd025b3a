/* A listening Unix socket that was shut down accepts nothing any more, and poll(2) says so: threads that wait for connections
 * are told to end in this way. So it is after a restart, also of one with a connection that had come before.
 *
 * expect: survive
 */
#include "check.h"
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

static int listening(const char *name, int type, struct sockaddr_un *at)
{
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    CHECK(getcwd(at->sun_path, sizeof at->sun_path - 16) != NULL);
    strcat(strcat(at->sun_path, "/"), name);
    int made = socket(AF_UNIX, type, 0);
    CHECK(made >= 0 && bind(made, (struct sockaddr *)at, sizeof *at) == 0 && listen(made, 3) == 0);
    return made;
}

int main(void)
{
    struct sockaddr_un at, other;
    int server = listening("server", SOCK_STREAM, &at), both = listening("both", SOCK_SEQPACKET, &other);
    int client = socket(AF_UNIX, SOCK_STREAM, 0), late = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(connect(client, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(shutdown(server, SHUT_RD) == 0 && shutdown(both, SHUT_RDWR) == 0);
    for (int life = 0; life < 3; life++) {
        struct pollfd polled[] = {{.fd = server, .events = POLLIN | POLLRDHUP}, {.fd = both, .events = POLLIN}};
        CHECK(poll(polled, 2, 0) == 2);
        CHECK(polled[0].revents == (POLLIN | POLLRDHUP) && polled[1].revents == (POLLIN | POLLHUP));
        CHECK(accept(both, NULL, NULL) == -1 && errno == EINVAL);
        CHECK(connect(late, (struct sockaddr *)&at, sizeof at) == -1 && errno == ECONNREFUSED);
        if (life < 2)
            moment("shut down");
    }
    CHECK(accept(server, NULL, NULL) >= 0);
    CHECK(accept(server, NULL, NULL) == -1 && errno == EINVAL);
    puts("no more");
    return 0;
}
