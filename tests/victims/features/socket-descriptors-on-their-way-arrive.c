/* Descriptors that are on their way in a message (SCM_RIGHTS) arrive with the byte that they were sent with:
 * files, pipes, sockets.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <fcntl.h>

static void send_with(int over, const char *text, const int *files, int count)
{
    char control[CMSG_SPACE(4 * sizeof(int))] = {0};
    struct iovec piece = {.iov_base = (void *)text, .iov_len = strlen(text)};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(header), files, (size_t)count * sizeof(int));
    }
    CHECK(sendmsg(over, &message, 0) == (ssize_t)strlen(text));
}

static int receive(int over, char *text, size_t room, int *files)
{
    char control[CMSG_SPACE(4 * sizeof(int))];
    struct iovec piece = {.iov_base = text, .iov_len = room - 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t bytes = recvmsg(over, &message, MSG_DONTWAIT);
    CHECK(bytes > 0 && !(message.msg_flags & MSG_CTRUNC));
    text[bytes] = 0;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL)
        return 0;
    CHECK(header->cmsg_type == SCM_RIGHTS);
    int count = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(files, CMSG_DATA(header), (size_t)count * sizeof(int));
    return count;
}

int main(void)
{
    int stream[2], packets[2], pipe_[2], inner[2], files[4], kept;
    char text[64];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets) == 0);
    CHECK(pipe(pipe_) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, inner) == 0);
    CHECK((kept = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0 && write(kept, "0123456789", 10) == 10);
    CHECK(write(inner[0], "within", 6) == 6);
    send_with(stream[0], "with two", (int[]){kept, pipe_[0]}, 2);
    send_with(stream[0], " after", NULL, 0);
    send_with(packets[0], "socket", (int[]){inner[1]}, 1);
    CHECK(close(pipe_[0]) == 0 && close(inner[1]) == 0 && write(pipe_[1], "piped", 5) == 5);
    moment("on their way");
    CHECK(receive(stream[1], text, 4, files) == 2 && strcmp(text, "wit") == 0);
    CHECK(lseek(files[0], 0, SEEK_CUR) == 10 && lseek(files[0], 3, SEEK_SET) == 3 && lseek(kept, 0, SEEK_CUR) == 3);
    CHECK(read(files[1], text, sizeof text) == 5 && memcmp(text, "piped", 5) == 0);
    moment("arrived in part");
    CHECK(receive(stream[1], text, sizeof text, files) == 0);
    CHECK(strcmp(text, "h two after") == 0 || strcmp(text, "h two") == 0);
    CHECK(receive(packets[1], text, sizeof text, files) == 1 && strcmp(text, "socket") == 0);
    CHECK(read(files[0], text, sizeof text) == 6 && memcmp(text, "within", 6) == 0);
    CHECK(write(files[0], "back", 4) == 4 && read(inner[0], text, sizeof text) == 4);
    puts("they arrived");
    return 0;
}
