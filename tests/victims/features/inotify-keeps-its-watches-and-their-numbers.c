/* An inotify instance watches the same files and directories under the same numbers.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>

static char room[4096];

/* The next event; fails where there is none. */
static struct inotify_event *next(int fd)
{
    static char *at = room, *end = room;
    if (at == end) {
        ssize_t got = read(fd, room, sizeof room);
        CHECK(got > 0);
        at = room;
        end = room + got;
    }
    struct inotify_event *event = (struct inotify_event *)at;
    at += sizeof *event + event->len;
    return event;
}

int main(void)
{
    CHECK(mkdir("watched", 0755) == 0 && mkdir("passing", 0755) == 0);
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), file = open("watched/file", O_CREAT | O_RDWR, 0644);
    CHECK(fd >= 0 && file >= 0);
    for (int i = 1; i <= 20; i++) {
        int number = inotify_add_watch(fd, "passing", IN_ALL_EVENTS);
        CHECK(number == i && inotify_rm_watch(fd, number) == 0);
    }
    CHECK(inotify_add_watch(fd, "watched", IN_CREATE | IN_DELETE | IN_ONLYDIR) == 21);
    CHECK(inotify_add_watch(fd, "watched/file", IN_MODIFY) == 22);
    while (read(fd, room, sizeof room) > 0) { }
    moment("watching");
    CHECK(read(fd, room, sizeof room) == -1 && errno == EAGAIN);
    CHECK(write(file, "x", 1) == 1);
    struct inotify_event *event = next(fd);
    CHECK(event->wd == 22 && event->mask == IN_MODIFY);
    int other = open("watched/other", O_CREAT | O_RDWR, 0644);
    CHECK(other >= 0);
    event = next(fd);
    CHECK(event->wd == 21 && event->mask == IN_CREATE && strcmp(event->name, "other") == 0);
    CHECK(unlink("watched/other") == 0);
    event = next(fd);
    CHECK(event->wd == 21 && event->mask == IN_DELETE);
    CHECK(read(fd, room, sizeof room) == -1 && errno == EAGAIN);
    puts("nothing escaped it");
    return 0;
}
