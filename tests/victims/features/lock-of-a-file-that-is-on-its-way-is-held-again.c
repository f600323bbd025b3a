/* Locks of open files to which no descriptor leads, since they are on their way in messages, are held again: of a whole
 * file (flock), and of a part of one (F_OFD_SETLK).
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>

static const char *const names[] = {"whole", "part"};

static void send_away(int to, int file)
{
    char byte = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(header), &file, sizeof file);
    CHECK(sendmsg(to, &message, 0) == 1 && close(file) == 0);
}

static int receive(int from)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int file;
    CHECK(recvmsg(from, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL);
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}

/* Takes the lock of one of the two kinds, which another open file must not hold. */
static int lock(int file, int kind)
{
    struct flock part = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
    return kind == 0 ? flock(file, LOCK_EX | LOCK_NB) : fcntl(file, F_OFD_SETLK, &part);
}

static int is_held(int kind)
{
    int other = open(names[kind], O_RDWR);
    CHECK(other >= 0);
    int got = lock(other, kind);
    CHECK(got == 0 || errno == EAGAIN);
    CHECK(close(other) == 0);
    return got != 0;
}

int main(void)
{
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    for (int kind = 0; kind < 2; kind++) {
        int file = open(names[kind], O_RDWR | O_CREAT, 0600);
        CHECK(file >= 0 && lock(file, kind) == 0);
        send_away(pair[0], file);
    }
    for (int life = 0; life < 2; life++) {
        moment("sent");
        CHECK(is_held(0) && is_held(1));
    }
    for (int kind = 0; kind < 2; kind++) {
        int file = receive(pair[1]);
        CHECK(is_held(kind) && close(file) == 0 && !is_held(kind));
    }
    puts("held");
    return 0;
}
