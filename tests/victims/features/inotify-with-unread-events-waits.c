/* Events of inotify that have not been read cannot be put back: the checkpoint waits until they have been.
 *
 * expect: refuse "inotify" "events"
 */
#include "check.h"
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>

int main(void)
{
    char room[4096];
    CHECK(mkdir("watched", 0755) == 0);
    int fd = inotify_init1(0);
    CHECK(fd >= 0 && inotify_add_watch(fd, "watched", IN_CREATE) == 1);
    int file = open("watched/file", O_CREAT | O_RDWR, 0644);
    CHECK(file >= 0);
    moment("unread");
    struct inotify_event *event = (struct inotify_event *)room;
    CHECK(read(fd, room, sizeof room) > 0 && event->wd == 1 && event->mask == IN_CREATE);
    puts("read");
    return 0;
}
