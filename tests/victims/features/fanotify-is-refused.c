/* An fanotify group is refused by name.
 *
 * expect: refuse "fanotify"
 */
#include "check.h"
#include <fcntl.h>
#include <sys/fanotify.h>

int main(void)
{
    int group = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY);
    if (group < 0)
        LACKS("no fanotify for this user");
    moment("held");
    CHECK(close(group) == 0);
    puts("closed");
    return 0;
}
