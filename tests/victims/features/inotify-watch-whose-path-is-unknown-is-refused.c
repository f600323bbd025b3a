/* A watch (inotify) whose path nobody can know, since the directory that was watched is gone, or lies among nothing that the
 * program deals with, is refused by name.
 *
 * expect: refuse "inotify" "path of what it watches"
 */
#include "check.h"
#include <sys/inotify.h>

int main(void)
{
    int instance = inotify_init1(IN_CLOEXEC);
    CHECK(instance >= 0 && mkdir("one", 0700) == 0 && mkdir("one/two", 0700) == 0 && mkdir("one/two/three", 0700) == 0);
    CHECK(inotify_add_watch(instance, "one/two/three", IN_CREATE) == 1);
    moment("watches");
    CHECK(close(instance) == 0 && rmdir("one/two/three") == 0 && rmdir("one/two") == 0 && rmdir("one") == 0);
    puts("watched");
    return 0;
}
