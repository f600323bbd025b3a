/* Steps on files and directories: opening, contents, names, and what belongs to an open description. */
#include "interpreter.h"
#include <dirent.h>
#include <linux/magic.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <termios.h>

enum { BYTES_MAX = 1 << 17 };

static unsigned char bytes[BYTES_MAX];

static size_t amount_of(long length)
{
    return length < 0 ? 0 : length > BYTES_MAX ? BYTES_MAX : (size_t)length;
}

/* Marks a file made with O_TMPFILE until it has a name. */
enum { NEVER_NAMED = S_ISVTX };

/* open SLOT PATH FLAGS MODE. A named pipe is never waited for. */
static long do_open(const long *a)
{
    int fd = open(path_of(a[1]), (int)a[2] | O_NONBLOCK | O_NOCTTY, (mode_t)a[3]);
    if (fd >= 0 && !(a[2] & O_NONBLOCK))
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    if (fd >= 0 && (a[2] & O_TMPFILE) == O_TMPFILE)
        fchmod(fd, (mode_t)a[3] | NEVER_NAMED);
    return place(fd, a[0]);
}

/* Leaves out the keys of a terminal that stop and start its output, or empty its queues. How much is echoed before they
 * have an effect differs from run to run. */
static void leave_out_keys(int fd, size_t length)
{
    static const int keys[] = {VSTOP, VSTART, VINTR, VQUIT, VSUSP};
    struct termios settings;
    if (!isatty(fd) || tcgetattr(fd, &settings) != 0)
        return;
    for (size_t at = 0; at < length; at++)
        for (size_t key = 0; key < sizeof keys / sizeof *keys; key++)
            if (bytes[at] == settings.c_cc[keys[key]])
                bytes[at] = 'k';
}

/* A restart does not bring back what a mapping has written behind the end of a file in memory (docs/states.md). Such a file
 * would show it when it becomes longer, so what may make it longer clears it first. */
static void clear_behind_the_end(int fd)
{
    enum { PAGE = 4096 };
    struct statfs system;
    struct stat status;
    if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return;
    size_t used = status.st_size % PAGE;
    if (used == 0)
        return;
    unsigned char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, status.st_size - used);
    if (page == MAP_FAILED)
        return;
    memset(page + used, 0, PAGE - used);
    munmap(page, PAGE);
}

/* write SLOT LENGTH SEED */
static long do_write(const long *a)
{
    size_t length = amount_of(a[1]);
    int fd = fd_of(a[0]);
    make_pattern(bytes, length, a[2]);
    leave_out_keys(fd, length);
    clear_behind_the_end(fd);
    int flags = never_wait(fd);
    ssize_t written = write(fd, bytes, length);
    wait_again(fd, flags);
    settle_terminal(fd);
    return written;
}

/* write-at SLOT OFFSET LENGTH SEED */
static long do_write_at(const long *a)
{
    size_t length = amount_of(a[2]);
    make_pattern(bytes, length, a[3]);
    clear_behind_the_end(fd_of(a[0]));
    return pwrite(fd_of(a[0]), bytes, length, a[1]);
}

/* read SLOT LENGTH */
static long do_read(const long *a)
{
    int fd = fd_of(a[0]);
    errno = EINVAL;
    if (is_structured(fd))
        return -1;
    int flags = never_wait(fd);
    ssize_t got = read(fd, bytes, amount_of(a[1]));
    wait_again(fd, flags);
    say_bytes(bytes, got);
    return got;
}

/* read-at SLOT OFFSET LENGTH */
static long do_read_at(const long *a)
{
    ssize_t got = pread(fd_of(a[0]), bytes, amount_of(a[2]), a[1]);
    say_bytes(bytes, got);
    return got;
}

/* seek SLOT OFFSET FROM */
/* What is allocated and not written counts as data once somebody has read it, which a checkpoint may do. So it is read. */
static long do_seek(const long *a)
{
    static char bytes[65536];
    struct stat now;
    if (a[2] >= SEEK_DATA && fstat(fd_of(a[0]), &now) == 0 && S_ISREG(now.st_mode))
        for (off_t at = 0; pread(fd_of(a[0]), bytes, sizeof bytes, at) > 0;)
            at += sizeof bytes;
    return lseek(fd_of(a[0]), a[1], (int)a[2]);
}

static long do_truncate(const long *a)
{
    clear_behind_the_end(fd_of(a[0]));
    return ftruncate(fd_of(a[0]), a[1]);
}

/* allocate SLOT MODE OFFSET LENGTH */
static long do_allocate(const long *a)
{
    clear_behind_the_end(fd_of(a[0]));
    return fallocate(fd_of(a[0]), (int)a[1], a[2], a[3] & 0xfffff);
}

/* duplicate SLOT NEW-SLOT CLOSE-ON-EXEC */
static long do_duplicate(const long *a)
{
    return dup3(fd_of(a[0]), fd_of(a[1]), a[2] ? O_CLOEXEC : 0) < 0 ? -1 : 0;
}

static long do_close(const long *a)
{
    return close(fd_of(a[0]));
}

/* set-flags SLOT FLAGS: those of the open description. */
static long do_set_flags(const long *a)
{
    return fcntl(fd_of(a[0]), F_SETFL, a[1]);
}

static long do_close_on_exec(const long *a)
{
    return fcntl(fd_of(a[0]), F_SETFD, a[1]);
}

/* owner SLOT KIND ACTOR: who gets the signals of the descriptor. Kind 0: a thread, 1: a process, 2: a group. */
static long do_owner(const long *a)
{
    struct f_owner_ex owner = {.type = (int)a[1], .pid = a[1] == F_OWNER_TID ? tid_of(a[2]) : pid_of(a[2])};
    return fcntl(fd_of(a[0]), F_SETOWN_EX, &owner);
}

static long do_signal_of(const long *a)
{
    return fcntl(fd_of(a[0]), F_SETSIG, a[1]);
}

/* change-mode SLOT MODE. The working folder stays writable: a restart, like the program, must be able to make files. */
static long do_change_mode(const long *a)
{
    struct stat folder, found;
    int fd = fd_of(a[0]);
    bool is_folder = stat(state->base, &folder) == 0 && fstat(fd, &found) == 0 && folder.st_dev == found.st_dev &&
        folder.st_ino == found.st_ino;
    return fchmod(fd, (mode_t)a[1] | (is_folder ? 0700 : 0));
}

static long do_make_directory(const long *a)
{
    return mkdir(path_of(a[0]), (mode_t)a[1]);
}

static long do_remove_directory(const long *a)
{
    return rmdir(path_of(a[0]));
}

/* A file that keeps another name is shown under that one after a restart (docs/states.md). */
static long do_unlink(const long *a)
{
    struct stat file;
    if (lstat(path_of(a[0]), &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink > 1) {
        errno = EBUSY;
        return -1;
    }
    return unlink(path_of(a[0]));
}

static long do_make_pipe(const long *a)
{
    return mkfifo(path_of(a[0]), (mode_t)a[1]);
}

static long with_two_names(int (*call)(const char *, const char *), const long *a)
{
    char from[4200];
    snprintf(from, sizeof from, "%s", path_of(a[0]));
    return call(from, path_of(a[1]));
}

static long do_rename(const long *a)
{
    return with_two_names(rename, a);
}

static long do_link(const long *a)
{
    return with_two_names(link, a);
}

static long do_symbolic_link(const long *a)
{
    return with_two_names(symlink, a);
}

/* name-file SLOT PATH: gives a name to a file that never had one. To one that had, the kernel gives none, but does so after a
 * restart (docs/states.md). */
static long do_name_file(const long *a)
{
    char own[64];
    struct stat file;
    if (fstat(fd_of(a[0]), &file) == 0 && file.st_nlink == 0 && !(file.st_mode & NEVER_NAMED)) {
        errno = ENOENT;
        return -1;
    }
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd_of(a[0]));
    long named = linkat(AT_FDCWD, own, AT_FDCWD, path_of(a[1]), AT_SYMLINK_FOLLOW);
    if (named == 0)
        fchmod(fd_of(a[0]), file.st_mode & 07777 & ~NEVER_NAMED);
    return named;
}

/* look PATH: what the file is, and what is in it. */
static long do_look(const long *a)
{
    struct stat found;
    if (lstat(path_of(a[0]), &found) != 0)
        return -1;
    say(" mode %o size %ld links %lu", found.st_mode, S_ISDIR(found.st_mode) ? 0L : (long)found.st_size,
        S_ISDIR(found.st_mode) ? 0 : (unsigned long)found.st_nlink);
    int fd = S_ISREG(found.st_mode) ? open(path_of(a[0]), O_RDONLY) : -1;
    if (fd >= 0) {
        say_bytes(bytes, read(fd, bytes, sizeof bytes));
        close(fd);
    }
    return 0;
}

/* list SLOT BYTES: some entries of a directory, as many as fit. */
static long do_list(const long *a)
{
    ssize_t got = getdents64(fd_of(a[0]), bytes, amount_of(a[1]));
    for (ssize_t at = 0; at < got;) {
        struct dirent64 *entry = (void *)(bytes + at);
        say(" %s", entry->d_name);
        at += entry->d_reclen;
    }
    return got;
}

/* splice SLOT OTHER LENGTH KIND. Kind 0: splice, 1: tee, 2: sendfile, 3: copy_file_range. */
static long do_splice(const long *a)
{
    int from = fd_of(a[0]), to = fd_of(a[1]);
    size_t length = amount_of(a[2]);
    clear_behind_the_end(to);
    int from_flags = never_wait(from), to_flags = never_wait(to);
    ssize_t moved = a[3] == 0   ? splice(from, NULL, to, NULL, length, SPLICE_F_NONBLOCK)
                    : a[3] == 1 ? tee(from, to, length, SPLICE_F_NONBLOCK)
                    : a[3] == 2 ? sendfile(to, from, NULL, length)
                                : copy_file_range(from, NULL, to, NULL, length, 0);
    wait_again(to, to_flags);
    wait_again(from, from_flags);
    return moved;
}

/* memfd SLOT FLAGS */
static long do_memfd(const long *a)
{
    return place(memfd_create("memory", (unsigned)a[1]), a[0]);
}

static long do_seal(const long *a)
{
    return fcntl(fd_of(a[0]), F_ADD_SEALS, a[1]);
}

const struct operation file_operations[] = {
    {"open", do_open},
    {"write", do_write},
    {"write-at", do_write_at},
    {"read", do_read},
    {"read-at", do_read_at},
    {"seek", do_seek},
    {"truncate", do_truncate},
    {"allocate", do_allocate},
    {"duplicate", do_duplicate},
    {"close", do_close},
    {"set-flags", do_set_flags},
    {"close-on-exec", do_close_on_exec},
    {"owner", do_owner},
    {"signal-of", do_signal_of},
    {"change-mode", do_change_mode},
    {"make-directory", do_make_directory},
    {"remove-directory", do_remove_directory},
    {"unlink", do_unlink},
    {"make-pipe", do_make_pipe},
    {"rename", do_rename},
    {"link", do_link},
    {"symbolic-link", do_symbolic_link},
    {"name-file", do_name_file},
    {"look", do_look},
    {"list", do_list},
    {"splice", do_splice},
    {"memfd", do_memfd},
    {"seal", do_seal},
    {0},
};
