/* A file of /proc about the program that is on its way in a message is waited for.
 *
 * expect: refuse "socket" "unread message passes"
 * doctor-blind: what is in flight is not looked at while the program runs
 */
#include "proc_files.h"
#include <sys/socket.h>

int main(void)
{
    char byte = 'b', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int ends[2], file = opened("/proc/self/stat", O_RDONLY);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    *CMSG_FIRSTHDR(&message) = (struct cmsghdr){CMSG_LEN(sizeof file), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &file, sizeof file);
    CHECK(sendmsg(ends[0], &message, 0) == 1);
    moment("sent");
    CHECK(recvmsg(ends[1], &message, 0) == 1);
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    CHECK(atol(text_of(file)) == getpid());
    puts("arrived");
    return 0;
}
