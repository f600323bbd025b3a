/* Who sent a message is told as before (SO_PASSCRED), and who is at the other end (SO_PEERCRED).
 *
 * expect: survive
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

static void expect(int over, const char *wanted)
{
    char control[CMSG_SPACE(sizeof(struct ucred))], text[32] = {0};
    struct iovec piece = {.iov_base = text, .iov_len = sizeof text};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct ucred sender;
    CHECK(recvmsg(over, &message, MSG_DONTWAIT) == (ssize_t)strlen(wanted) && strcmp(text, wanted) == 0);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header != NULL && header->cmsg_type == SCM_CREDENTIALS);
    memcpy(&sender, CMSG_DATA(header), sizeof sender);
    CHECK(sender.pid == getpid() && sender.uid == getuid() && sender.gid == getgid());
}

int main(void)
{
    int pair[2], on = 1, packets[2];
    struct ucred peer;
    socklen_t length = sizeof peer;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, packets) == 0);
    CHECK(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    CHECK(setsockopt(packets[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    CHECK(write(pair[0], "stream", 6) == 6 && write(packets[0], "one", 3) == 3 && write(packets[0], "two", 3) == 3);
    moment("sent");
    expect(pair[1], "stream");
    expect(packets[1], "one");
    expect(packets[1], "two");
    CHECK(getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0);
    CHECK(peer.pid == getpid() && peer.uid == getuid());
    CHECK(write(pair[0], "new", 3) == 3);
    expect(pair[1], "new");
    puts("it was us");
    return 0;
}
