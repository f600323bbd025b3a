/* Sockets keep names whose files, and the directories of these, had been removed: a connection, a server that takes no more,
 * datagrams that have not been read. Nothing is made where the names led, and a named pipe in such a place stays.
 *
 * expect: survive
 */
#include "check.h"
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un named(const char *folder, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char here[4096];
    CHECK(getcwd(here, sizeof here) != NULL);
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/%s/%s", here, folder, name);
    CHECK(length < (int)sizeof address.sun_path);
    return address;
}

static void is_named(int made, const struct sockaddr_un *address, int of_peer)
{
    struct sockaddr_un now;
    socklen_t length = sizeof now;
    memset(&now, 0, sizeof now);
    int asked = of_peer ? getpeername(made, (struct sockaddr *)&now, &length)
                        : getsockname(made, (struct sockaddr *)&now, &length);
    CHECK(asked == 0 && strcmp(now.sun_path, address->sun_path) == 0);
}

int main(void)
{
    CHECK(mkdir("gone", 0700) == 0 && mkdir("kept", 0700) == 0);
    struct sockaddr_un at = named("gone", "server"), box = named("kept", "box");
    int server = socket(AF_UNIX, SOCK_STREAM, 0), calling = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(server, (struct sockaddr *)&at, sizeof at) == 0 && listen(server, 3) == 0);
    CHECK(connect(calling, (struct sockaddr *)&at, sizeof at) == 0);
    int called = accept(server, NULL, NULL), waiting = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(called >= 0 && connect(waiting, (struct sockaddr *)&at, sizeof at) == 0);
    int inbox = socket(AF_UNIX, SOCK_DGRAM, 0), sender = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(bind(inbox, (struct sockaddr *)&box, sizeof box) == 0);
    CHECK(connect(sender, (struct sockaddr *)&box, sizeof box) == 0 && send(sender, "a letter", 9, 0) == 9);
    CHECK(unlink(at.sun_path) == 0 && rmdir("gone") == 0 && unlink(box.sun_path) == 0);
    CHECK(mkfifo(box.sun_path, 0600) == 0);
    for (int life = 0; life < 2; life++) {
        moment("names without files");
        char word[16] = "";
        struct stat now;
        is_named(server, &at, 0);
        is_named(called, &at, 0);
        is_named(calling, &at, 1);
        is_named(inbox, &box, 0);
        is_named(sender, &box, 1);
        CHECK(lstat("gone", &now) == -1 && errno == ENOENT);
        CHECK(lstat(box.sun_path, &now) == 0 && S_ISFIFO(now.st_mode));
        CHECK(send(calling, "a word", 7, 0) == 7 && recv(called, word, 7, MSG_WAITALL) == 7);
        CHECK(strcmp(word, "a word") == 0 && recv(inbox, word, 9, 0) == 9 && strcmp(word, "a letter") == 0);
        CHECK(send(sender, "a letter", 9, 0) == 9);
        CHECK(poll(&(struct pollfd){server, POLLIN, 0}, 1, 0) == 1);
    }
    int accepted = accept(server, NULL, NULL);
    CHECK(accepted >= 0 && send(waiting, "late", 5, 0) == 5);
    char word[8] = "";
    CHECK(recv(accepted, word, 5, MSG_WAITALL) == 5 && strcmp(word, "late") == 0);
    puts("all names kept");
    return 0;
}
