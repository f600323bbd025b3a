/* Signal-driven I/O of an open file that is only in a message is refused by name until the message is received.
 *
 * expect: refuse "signals (F_SETOWN)"
 * doctor-blind: what is in flight is examined only while the program is frozen
 */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

int main(void)
{
    int pair[2], ends[2], file;
    char byte = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    CHECK(signal(SIGIO, SIG_IGN) != SIG_ERR && pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(fcntl(ends[0], F_SETOWN, getpid()) == 0);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &ends[0], sizeof(int));
    CHECK(sendmsg(pair[0], &message, 0) == 1 && close(ends[0]) == 0);
    moment("sent");
    message.msg_controllen = sizeof room;
    CHECK(recvmsg(pair[1], &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL);
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    CHECK(fcntl(file, F_GETOWN) == getpid());
    puts("received");
    return 0;
}
