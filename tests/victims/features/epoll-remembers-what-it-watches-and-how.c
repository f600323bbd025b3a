/* An epoll instance watches the same descriptors, with the same data and modes: level, edge, and one shot, fired or not.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/epoll.h>

enum { LEVEL, EDGE, ONCE, FIRED, COUNT };

static int ends[COUNT][2];
static int instance;

/* Which of them are ready, one bit each; the data must be right. */
static unsigned ready(void)
{
    struct epoll_event events[8];
    unsigned bits = 0;
    int count = epoll_wait(instance, events, 8, 0);
    CHECK(count >= 0);
    for (int i = 0; i < count; i++) {
        unsigned which = (unsigned)(events[i].data.u64 & 7);
        CHECK(which < COUNT && events[i].data.u64 == (0xabcdef0000000000 | which) && events[i].events == EPOLLIN);
        bits |= 1u << which;
    }
    return bits;
}

static void tell(int which)
{
    CHECK(write(ends[which][1], "!", 1) == 1);
}

int main(void)
{
    static const uint32_t modes[COUNT] = {EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT, EPOLLIN | EPOLLONESHOT};
    CHECK((instance = epoll_create1(EPOLL_CLOEXEC)) >= 0);
    for (unsigned i = 0; i < COUNT; i++) {
        struct epoll_event event = {.events = modes[i], .data.u64 = 0xabcdef0000000000 | i};
        CHECK(pipe(ends[i]) == 0 && epoll_ctl(instance, EPOLL_CTL_ADD, ends[i][0], &event) == 0);
    }
    tell(FIRED);
    CHECK(ready() == 1u << FIRED && ready() == 0);
    moment("one has fired");
    CHECK(ready() == 0);
    for (int i = 0; i < COUNT; i++)
        tell(i);
    moment("all have something to say");
    CHECK(ready() == ((1u << LEVEL) | (1u << EDGE) | (1u << ONCE)));
    CHECK(ready() == 1u << LEVEL);
    tell(EDGE);
    CHECK(ready() == ((1u << LEVEL) | (1u << EDGE)));
    struct epoll_event again = {.events = modes[FIRED], .data.u64 = 0xabcdef0000000000 | FIRED};
    CHECK(epoll_ctl(instance, EPOLL_CTL_MOD, ends[FIRED][0], &again) == 0);
    CHECK(ready() == ((1u << LEVEL) | (1u << FIRED)));
    CHECK(epoll_ctl(instance, EPOLL_CTL_DEL, ends[LEVEL][0], NULL) == 0 && ready() == 0);
    puts("watched as before");
    return 0;
}
