/* A server whose socket file cannot be made again, since nothing may be made in that directory any more, keeps its clients
 * and its name. The restart reports that others no longer reach it by name.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

int main(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX}, now;
    socklen_t length = sizeof now;
    char byte;
    CHECK(mkdir("closed", 0755) == 0 && getcwd(at.sun_path, sizeof at.sun_path - 16) != NULL);
    strcat(at.sun_path, "/closed/socket");
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 5) == 0);
    CHECK(connect(client, (struct sockaddr *)&at, sizeof at) == 0);
    int accepted = accept(listener, NULL, NULL);
    CHECK(accepted >= 0 && chmod("closed", 0555) == 0);
    moment("closed");
    moment("still closed");
    CHECK(getsockname(listener, (struct sockaddr *)&now, &length) == 0 && strcmp(now.sun_path, at.sun_path) == 0);
    CHECK(write(client, "!", 1) == 1 && read(accepted, &byte, 1) == 1 && byte == '!');
    CHECK(chmod("closed", 0755) == 0);
    puts("went on");
    return 0;
}
