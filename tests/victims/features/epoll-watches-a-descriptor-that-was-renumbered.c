/* Epoll goes on watching an open file under the number under which it was added, though that number was closed and means
 * another file now, and though it is no longer open under any number that epoll knows.
 *
 * expect: survive
 */
#include "check.h"
#include <sys/epoll.h>

int main(void)
{
    int first[2], second[2], instance = epoll_create1(EPOLL_CLOEXEC);
    CHECK(pipe(first) == 0 && pipe(second) == 0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1111222233334444};
    CHECK(epoll_ctl(instance, EPOLL_CTL_ADD, first[0], &event) == 0);
    int moved = dup(first[0]), number = first[0];
    CHECK(dup2(second[0], number) == number && close(second[0]) == 0);
    event.data.u64 = 0x5555666677778888;
    CHECK(epoll_ctl(instance, EPOLL_CTL_ADD, number, &event) == 0);
    moment("renumbered");
    CHECK(write(first[1], "a", 1) == 1);
    struct epoll_event got[4];
    CHECK(epoll_wait(instance, got, 4, 0) == 1 && got[0].data.u64 == 0x1111222233334444);
    CHECK(write(second[1], "b", 1) == 1 && epoll_wait(instance, got, 4, 0) == 2);
    char byte;
    CHECK(read(moved, &byte, 1) == 1 && byte == 'a' && read(number, &byte, 1) == 1 && byte == 'b');
    CHECK(epoll_wait(instance, got, 4, 0) == 0);
    CHECK(close(moved) == 0 && write(second[1], "c", 1) == 1 && epoll_wait(instance, got, 4, 0) == 1);
    puts("epoll knew the files, not the numbers");
    return 0;
}
