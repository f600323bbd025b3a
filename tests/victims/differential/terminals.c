/* Steps on pseudo-terminals: both sides, settings, windows, sessions and foreground groups. */
#include "interpreter.h"
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

enum { SETTLE_MICROSECONDS = 8000 };

void settle_terminal(int fd)
{
    // A worker of the kernel's passes input on, and echoes it.
    if (isatty(fd))
        usleep(SETTLE_MICROSECONDS);
}

/* terminal MASTER SLAVE */
static long do_terminal(const long *a)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0)
        return -1;
    if (grantpt(master) != 0 || unlockpt(master) != 0) {
        close(master);
        return -1;
    }
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    return place(master, a[0]) | place(slave, a[1]);
}

/* set-terminal SLOT FIELD BITS ON. The field is 0 input, 1 output, 2 control, 3 local, or 4 for a character: BITS its
 * number, ON its value. */
static long do_set_terminal(const long *a)
{
    struct termios settings;
    if (tcgetattr(fd_of(a[0]), &settings) != 0)
        return -1;
    tcflag_t *fields[] = {&settings.c_iflag, &settings.c_oflag, &settings.c_cflag, &settings.c_lflag};
    if (a[1] == 4)
        settings.c_cc[a[2] % NCCS] = (cc_t)a[3];
    else if (a[3])
        *fields[a[1] & 3] |= (tcflag_t)a[2];
    else
        *fields[a[1] & 3] &= ~(tcflag_t)a[2];
    return tcsetattr(fd_of(a[0]), TCSANOW, &settings);
}

static long do_raw(const long *a)
{
    struct termios settings;
    if (tcgetattr(fd_of(a[0]), &settings) != 0)
        return -1;
    cfmakeraw(&settings);
    return tcsetattr(fd_of(a[0]), TCSANOW, &settings);
}

/* window SLOT ROWS COLUMNS */
static long do_window(const long *a)
{
    struct winsize window = {.ws_row = (unsigned short)a[1], .ws_col = (unsigned short)a[2], .ws_xpixel = 7};
    return ioctl(fd_of(a[0]), TIOCSWINSZ, &window);
}

/* type SLOT NUMBER: lines of text, with and without an end. */
static long do_type(const long *a)
{
    static const char *const texts[] = {"a line\n", "two\nlines\n", "no end", "\n",
                                        "a\tb\n",   "\004",         "x\rz\n", "e\177f\n"};
    const char *text = texts[(unsigned long)a[1] % 8];
    int fd = fd_of(a[0]), flags = never_wait(fd);
    ssize_t written = write(fd, text, strlen(text));
    wait_again(fd, flags);
    settle_terminal(fd);
    return written;
}

static long do_control(const long *a)
{
    return ioctl(fd_of(a[0]), TIOCSCTTY, 0);
}

/* foreground SLOT ACTOR */
static long do_foreground(const long *a)
{
    pid_t group = pid_of(a[1]);
    return ioctl(fd_of(a[0]), TIOCSPGRP, &group);
}

static long do_packets(const long *a)
{
    int on = (int)a[1];
    return ioctl(fd_of(a[0]), TIOCPKT, &on);
}

static long do_exclusive(const long *a)
{
    return ioctl(fd_of(a[0]), a[1] ? TIOCEXCL : TIOCNXCL);
}

static long do_flow(const long *a)
{
    return tcflow(fd_of(a[0]), (int)a[1]);
}

static long do_leave(const long *a)
{
    return ioctl(fd_of(a[0]), TIOCNOTTY);
}

void observe_terminal(int fd)
{
    struct termios settings;
    struct winsize window;
    int value;
    pid_t pid;
    if (tcgetattr(fd, &settings) != 0)
        return;
    say(" termios %x %x %x %x line %d speed %u %u characters %016lx", settings.c_iflag, settings.c_oflag,
        settings.c_cflag, settings.c_lflag, settings.c_line, settings.c_ispeed, settings.c_ospeed,
        (unsigned long)fold(FOLD_START, settings.c_cc, sizeof settings.c_cc));
    if (ioctl(fd, TIOCGWINSZ, &window) == 0)
        say(" window %d %d %d %d", window.ws_row, window.ws_col, window.ws_xpixel, window.ws_ypixel);
    if (ioctl(fd, TIOCGPGRP, &pid) == 0)
        say(" foreground %s", who(pid));
    if (ioctl(fd, TIOCGSID, &pid) == 0)
        say(" session %s", who(pid));
    if (ioctl(fd, TIOCGEXCL, &value) == 0)
        say(" exclusive %d", value);
    if (ioctl(fd, TIOCGPKT, &value) == 0)
        say(" packets %d", value);
    if (ioctl(fd, TIOCGPTLCK, &value) == 0)
        say(" locked %d", value);
    if (ioctl(fd, TIOCOUTQ, &value) == 0)
        say(" queued %d", value);
}

const struct operation terminal_operations[] = {
    {"terminal", do_terminal},
    {"set-terminal", do_set_terminal},
    {"raw", do_raw},
    {"window", do_window},
    {"type", do_type},
    {"control-terminal", do_control},
    {"leave-terminal", do_leave},
    {"foreground", do_foreground},
    {"packets", do_packets},
    {"exclusive", do_exclusive},
    {"flow", do_flow},
    {0},
};
