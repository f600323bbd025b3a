/* A server that takes over the name of an older one, which is still there: connections and datagrams that wait at either stay
 * there, and a socket that is connected to the older one still is.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un streams, datagrams, sender;

static void set_address(struct sockaddr_un *at, const char *name)
{
    at->sun_family = AF_UNIX;
    CHECK(getcwd(at->sun_path, sizeof at->sun_path - 16) != NULL);
    strcat(strcat(at->sun_path, "/"), name);
}

static int server(int type, const struct sockaddr_un *at)
{
    int made = socket(AF_UNIX, type, 0);
    CHECK(unlink(at->sun_path) == 0 || errno == ENOENT);
    CHECK(made >= 0 && bind(made, (const struct sockaddr *)at, sizeof *at) == 0);
    CHECK(type == SOCK_DGRAM || listen(made, 5) == 0);
    return made;
}

static int client(int type, const struct sockaddr_un *at)
{
    int made = socket(AF_UNIX, type, 0);
    CHECK(made >= 0 && connect(made, (const struct sockaddr *)at, sizeof *at) == 0);
    return made;
}

static void expect(int from, const char *wanted)
{
    char room[32] = {0};
    ssize_t length = (ssize_t)strlen(wanted);
    CHECK(recv(from, room, sizeof room, MSG_DONTWAIT) == length && strcmp(room, wanted) == 0);
}

static void say(int to, const char *what)
{
    CHECK(send(to, what, strlen(what), MSG_NOSIGNAL) == (ssize_t)strlen(what));
}

static void expect_client(int listener, int client, const char *word)
{
    int accepted = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(accepted >= 0);
    say(client, word);
    expect(accepted, word);
}

int main(void)
{
    set_address(&streams, "streams");
    set_address(&datagrams, "datagrams");
    set_address(&sender, "sender");
    int log = server(SOCK_DGRAM, &datagrams), writer = client(SOCK_DGRAM, &datagrams);
    int listener = server(SOCK_STREAM, &streams), waiting = client(SOCK_STREAM, &streams);
    CHECK(bind(writer, (struct sockaddr *)&sender, sizeof sender) == 0);
    say(writer, "old");
    int new_log = server(SOCK_DGRAM, &datagrams), new_writer = client(SOCK_DGRAM, &datagrams);
    int new_listener = server(SOCK_STREAM, &streams), new_waiting = client(SOCK_STREAM, &streams);
    say(new_writer, "new");
    moment("two of a name");
    moment("still two");
    expect(log, "old");
    expect(new_log, "new");
    say(writer, "old again");
    say(new_writer, "new again");
    expect(log, "old again");
    expect(new_log, "new again");
    expect_client(listener, waiting, "old stream");
    expect_client(new_listener, new_waiting, "new stream");
    int fresh = client(SOCK_STREAM, &streams);
    expect_client(new_listener, fresh, "fresh");
    puts("each to its own");
    return 0;
}
