/* Datagrams over the loopback interface, which have arrived when a function returns. On a busy machine they would else be on
 * their way for a moment, in a queue of the processor. */
#ifndef STANDFAST_VICTIM_DATAGRAMS_H
#define STANDFAST_VICTIM_DATAGRAMS_H

#include "check.h"
#include <arpa/inet.h>
#include <sched.h>
#include <sys/socket.h>

static inline struct sockaddr_in bound(int *made, in_addr_t address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    socklen_t length = sizeof at;
    CHECK((*made = socket(AF_INET, SOCK_DGRAM, 0)) >= 0 && bind(*made, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(*made, (struct sockaddr *)&at, &length) == 0);
    return at;
}

static inline void send_to(const struct sockaddr_in *at, int from, const char *text)
{
    int last;
    char byte;
    cpu_set_t before, here;
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    CHECK(sched_setaffinity(0, sizeof here, &here) == 0);
    CHECK(sendto(from, text, strlen(text), 0, (const struct sockaddr *)at, sizeof *at) == (ssize_t)strlen(text));
    /* The queue keeps the order. */
    struct sockaddr_in at_last = bound(&last, INADDR_LOOPBACK);
    CHECK(sendto(last, "", 1, 0, (struct sockaddr *)&at_last, sizeof at_last) == 1 && recv(last, &byte, 1, 0) == 1);
    CHECK(close(last) == 0 && sched_setaffinity(0, sizeof before, &before) == 0);
}

#endif
