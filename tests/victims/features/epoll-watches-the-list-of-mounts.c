/* An epoll instance that watches the list of mounts (/proc/self/mounts) watches it after a restart.
 *
 * expect: survive
 */
#include "proc_files.h"
#include <sys/epoll.h>

int main(void)
{
    int file = opened("/proc/self/mounts", O_RDONLY), instance = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLET | EPOLLPRI, .data.u64 = 4711};
    CHECK(instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, file, &event) == 0);
    for (int life = 1; life <= 3; life++) {
        CHECK(strstr(text_of(file), "proc") != NULL);
        CHECK(epoll_ctl(instance, EPOLL_CTL_ADD, file, &event) == -1 && errno == EEXIST);
        event.events = EPOLLIN;
        CHECK(epoll_ctl(instance, EPOLL_CTL_MOD, file, &event) == 0);
        event = (struct epoll_event){0};
        CHECK(epoll_wait(instance, &event, 1, 0) == 1 && event.data.u64 == 4711 && (event.events & EPOLLIN) != 0);
        event.events = EPOLLPRI;
        CHECK(epoll_ctl(instance, EPOLL_CTL_MOD, file, &event) == 0);
        if (life < 3)
            moment("watched");
    }
    puts("watched");
    return 0;
}
