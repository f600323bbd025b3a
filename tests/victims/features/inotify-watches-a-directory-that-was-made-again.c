/* An empty directory that is watched, and is gone by the restart, is made again and watched on.
 *
 * expect: survive
 * meanwhile: rm -rf watched
 */
#include "check.h"
#include <fcntl.h>
#include <sys/inotify.h>

int main(void)
{
    union {
        struct inotify_event event;
        char room[512];
    } told;
    int watching = inotify_init();
    CHECK(mkdir("watched", 0750) == 0 && inotify_add_watch(watching, "watched", IN_CREATE) == 1);
    for (int life = 0; life < 3; life++) {
        moment("watched");
        int file = open("watched/news", O_CREAT | O_EXCL | O_WRONLY, 0600);
        CHECK(file >= 0 && close(file) == 0 && read(watching, &told, sizeof told) > 0);
        CHECK(told.event.wd == 1 && told.event.mask == IN_CREATE && strcmp(told.event.name, "news") == 0);
        CHECK(unlink("watched/news") == 0);
    }
    CHECK(rmdir("watched") == 0);
    puts("seen three times");
    return 0;
}
