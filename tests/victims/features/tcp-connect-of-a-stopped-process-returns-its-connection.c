/* A process that was stopped in connect, and whose connection was made meanwhile, gets 0 when it goes on.
 *
 * expect: survive
 * replaces: nothing, since no other victim has a connection that its program does not know of
 */
#include "family.h"
#include <arpa/inet.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    char byte;
    int status, first = socket(AF_INET, SOCK_STREAM, 0), server = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(first >= 0 && server >= 0 && bind(server, (struct sockaddr *)&at, length) == 0 && listen(server, 0) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&at, &length) == 0);
    /* It waits to be accepted, and no other one is let in. */
    CHECK(connect(first, (struct sockaddr *)&at, length) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int own = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(own >= 0 && connect(own, (struct sockaddr *)&at, length) == 0);
        CHECK(connect(own, (struct sockaddr *)&at, length) == -1 && errno == EISCONN);
        CHECK(write(own, "x", 1) == 1 && read(own, &byte, 1) == 1 && byte == 'y');
        _exit(0);
    }
    await_call_of(child, SYS_connect);
    CHECK(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    int accepted = accept(server, NULL, NULL);
    CHECK(accepted >= 0 && close(accepted) == 0 && (accepted = accept(server, NULL, NULL)) >= 0);
    moment("the stopped one is connected");
    CHECK(kill(child, SIGCONT) == 0 && read(accepted, &byte, 1) == 1 && byte == 'x');
    CHECK(write(accepted, "y", 1) == 1 && waitpid(child, &status, 0) == child && status == 0);
    puts("connected");
    return 0;
}
