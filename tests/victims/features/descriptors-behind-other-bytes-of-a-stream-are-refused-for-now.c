/* Descriptors on their way behind other bytes of a stream are refused by name: with which byte they come cannot be told.
 *
 * expect: refuse "at which byte"
 * doctor-blind: what is in flight is not looked at while the program runs
 */
#include "check.h"
#include <sys/socket.h>

int main(void)
{
    char control[CMSG_SPACE(sizeof(int))] = {0}, room[16];
    struct iovec piece = {.iov_base = "with one", .iov_len = 8};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &pair[0], sizeof(int));
    CHECK(write(pair[0], "before ", 7) == 7 && sendmsg(pair[0], &message, 0) == 8);
    moment("on their way");
    CHECK(read(pair[1], room, 7) == 7 && read(pair[1], room, 8) == 8);
    puts("read");
    return 0;
}
