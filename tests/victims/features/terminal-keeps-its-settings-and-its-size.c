/* A pseudo-terminal keeps number, settings, speeds, size of the window and flags of both sides.
 *
 * expect: survive
 */
#include "terminal.h"

int main(void)
{
    int master, slave;
    struct termios before, after;
    struct winsize size = {33, 77, 640, 480};
    char name[64];
    /* There are unused bytes in it, which tcgetattr does not write. */
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    open_terminal(&master, &slave, 1);
    strcpy(name, ptsname(master));
    CHECK(tcgetattr(slave, &before) == 0);
    before.c_iflag ^= IXANY | INLCR;
    before.c_oflag ^= ONOCR;
    before.c_lflag ^= ECHOK | TOSTOP;
    before.c_cc[VINTR] = 5;
    before.c_cc[VMIN] = 7;
    CHECK(cfsetospeed(&before, B9600) == 0 && cfsetispeed(&before, B9600) == 0);
    CHECK(tcsetattr(slave, TCSANOW, &before) == 0 && ioctl(master, TIOCSWINSZ, &size) == 0);
    CHECK(tcgetattr(slave, &before) == 0);
    CHECK(fcntl(master, F_SETFL, O_NONBLOCK) == 0);
    int other = open(name, O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    CHECK(other >= 0);
    for (int round = 0; round < 2; round++) {
        moment("set");
        struct winsize now;
        struct stat one, two;
        CHECK(strcmp(ptsname(master), name) == 0 && strcmp(ttyname(slave), name) == 0);
        CHECK(tcgetattr(slave, &after) == 0 && memcmp(&before, &after, sizeof before) == 0);
        CHECK(ioctl(slave, TIOCGWINSZ, &now) == 0 && memcmp(&now, &size, sizeof now) == 0);
        CHECK((fcntl(master, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == (O_RDWR | O_NONBLOCK));
        CHECK((fcntl(slave, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == O_RDWR);
        CHECK((fcntl(other, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == (O_WRONLY | O_NONBLOCK));
        CHECK(fstat(slave, &one) == 0 && fstat(other, &two) == 0 && one.st_rdev == two.st_rdev);
        int again = open(name, O_RDWR | O_NOCTTY);
        CHECK(again >= 0 && close(again) == 0);
        say(other, "x\n");
        hear_soon(master, "x\r\n");
    }
    puts("settings kept");
    return 0;
}
