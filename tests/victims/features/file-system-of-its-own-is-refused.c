/* A program that serves a file system (FUSE), and has a file on it open, is refused; nothing asks that file system for anything while
 * whoever serves it stands still.
 *
 * expect: refuse "/dev/fuse" "serves a file system"
 * needs: root
 */
#include "family.h"
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mount.h>

enum { FILE_NODE = 2, LENGTH = 1000, REQUEST_BYTES = 1 << 17 };

static struct fuse_attr attributes(uint64_t node)
{
    int is_file = node == FILE_NODE;
    return (struct fuse_attr){
        .ino = node, .size = LENGTH, .mode = is_file ? S_IFREG | 0644 : S_IFDIR | 0755, .nlink = 1, .blksize = 4096};
}

static void answer(int device, uint64_t request, int error, const void *bytes, size_t length)
{
    static char out[sizeof(struct fuse_out_header) + LENGTH];
    struct fuse_out_header header = {(uint32_t)(sizeof header + length), error, request};
    memcpy(out, &header, sizeof header);
    if (length > 0)
        memcpy(out + sizeof header, bytes, length);
    CHECK(write(device, out, header.len) == (ssize_t)header.len || errno == ENOENT);
}

/* Whatever is known is known for no time: every question is asked again. */
static void serve(int device)
{
    static char request[REQUEST_BYTES], contents[LENGTH];
    memset(contents, 'f', sizeof contents);
    for (;;) {
        ssize_t length = read(device, request, sizeof request);
        /* Unmounted: the second is what a read gets that was already under way. */
        if (length < 0 && (errno == ENODEV || errno == ECONNABORTED))
            _exit(0);
        if (length < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
            continue;
        CHECK(length >= (ssize_t)sizeof(struct fuse_in_header));
        const struct fuse_in_header *in = (void *)request;
        const void *more = in + 1;
        switch (in->opcode) {
        case FUSE_INIT: {
            struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096};
            answer(device, in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_LOOKUP: {
            struct fuse_entry_out out = {.nodeid = FILE_NODE, .attr = attributes(FILE_NODE)};
            answer(device, in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_GETATTR: {
            struct fuse_attr_out out = {.attr = attributes(in->nodeid)};
            answer(device, in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out out = {.open_flags = FOPEN_DIRECT_IO};
            answer(device, in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_READ: {
            const struct fuse_read_in *asked = more;
            size_t left = asked->offset < LENGTH ? LENGTH - asked->offset : 0;
            answer(device, in->unique, 0, contents, asked->size < left ? asked->size : left);
            break;
        }
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT:
            break;
        case FUSE_FLUSH:
        case FUSE_RELEASE:
            answer(device, in->unique, 0, NULL, 0);
            break;
        default:
            answer(device, in->unique, -ENOSYS, NULL, 0);
        }
    }
}

int main(void)
{
    char options[128], bytes[200];
    int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0)
        LACKS("file systems in programs (/dev/fuse)");
    CHECK(mkdir("served", 0755) == 0);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (mount("victim", "served", "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
        CHECK(rmdir("served") == 0);
        LACKS("the right to mount");
    }
    pid_t server = fork();
    CHECK(server >= 0);
    if (server == 0)
        serve(device);
    CHECK(close(device) == 0);
    int file = open("served/file", O_RDONLY);
    /* Nothing of the mount is left behind, whatever becomes of this program. */
    CHECK(umount2("served", MNT_DETACH) == 0 && rmdir("served") == 0);
    CHECK(file >= 0 && read(file, bytes, sizeof bytes) == sizeof bytes && bytes[199] == 'f');
    moment("being served");
    struct stat status;
    CHECK(fstat(file, &status) == 0 && status.st_size == LENGTH);
    CHECK(read(file, bytes, sizeof bytes) == sizeof bytes && bytes[0] == 'f' && lseek(file, 0, SEEK_CUR) == 400);
    CHECK(close(file) == 0);
    reap(server, 0);
    puts("served");
    return 0;
}
