/* log: which messages of a message-passing program must be logged, so that any part of it can be replayed in a bounded time.
 *
 * LOG of "Compressed Differences" (1995), after Netzer, Subramanian and Xu, "Critical-Path-Based Message Logging for
 * Incremental Replay of Message-Passing Programs" (1994). Each process of a simulated program takes checkpoints of its own.
 * To replay an event, its process must be replayed from its checkpoint on, and with it whoever sent it a message, up to the
 * sending, and so on: the longest such path is the time of the replay. A message that would make it longer than the bound is
 * logged; its receiver then needs not wait for the sender. The program decides that for one bound after the other, on a graph
 * of events that lie in memory in no order: much chasing of pointers, a few bytes written here and there.
 *
 * Self-checks, by a search from the events backwards: no path is longer than the bound; each message that was logged might
 * have made one longer; and without a bound nothing is logged.
 *
 * usage: log [EVENTS (200000) [BOUNDS (60)]]
 */
#include "example.h"

enum { PROCESSES = 64, CHECKPOINT_EVERY = 40, COST_MAX = 10 };

struct event {
    struct event *next;    /* in the order of time */
    struct event *before;  /* of the same process, since its checkpoint */
    struct event *sending; /* of the message that this event receives */
    struct event *waiting; /* the next message to the same process, while they are under way */
    uint32_t cost;
    uint32_t left; /* what the process may do at most until its next checkpoint, as a cost */
    uint32_t path; /* the cost of a replay up to the end of this event */
    uint32_t searched;
    uint8_t logged;
};

static size_t event_count;
static struct event *events, *first_event;

/* A process of the simulated program: its last event, and the messages that it has not received yet. */
struct process {
    struct event *last, *oldest, *newest;
    size_t happened;
};

/* Where the event number `at` in the order of time lies: Fisher and Yates's shuffle. */
static size_t *shuffled_places(void)
{
    size_t *places = memory(event_count * sizeof *places);
    for (size_t at = 0; at < event_count; at++) {
        size_t other = mixed(at) % (at + 1);
        places[at] = places[other];
        places[other] = at;
    }
    return places;
}

static void receive(struct process *process, struct event *event)
{
    event->sending = process->oldest;
    process->oldest = process->oldest->waiting;
}

static void send(struct process *to, struct event *event)
{
    if (to->oldest)
        to->newest->waiting = event;
    else
        to->oldest = event;
    to->newest = event;
}

static void simulate(void)
{
    struct process processes[PROCESSES] = {{0}};
    size_t *places = shuffled_places();
    struct event **link = &first_event;
    events = memory(event_count * sizeof *events);
    for (size_t at = 0; at < event_count; at++) {
        uint64_t chance = mixed(0x6576656e74u + at);
        struct process *process = processes + chance % PROCESSES;
        struct event *event = events + places[at];
        *link = event;
        link = &event->next;
        event->cost = 1 + (uint32_t)(chance >> 8) % COST_MAX;
        size_t since = process->happened++ % CHECKPOINT_EVERY;
        event->before = since ? process->last : NULL;
        event->left = (uint32_t)(CHECKPOINT_EVERY - 1 - since) * COST_MAX;
        process->last = event;
        if (process->oldest && chance >> 32 & 1)
            receive(process, event);
        else if (chance >> 33 & 1)
            send(processes + (chance >> 40) % PROCESSES, event);
    }
    free(places);
}

static uint32_t longer(uint32_t one, uint32_t other)
{
    return one > other ? one : other;
}

/* Decides for each message, in the order of time, whether it is logged; returns how many are. */
static size_t log_messages(uint32_t bound)
{
    size_t logged = 0;
    for (struct event *event = first_event; event; event = event->next) {
        uint32_t own = event->before ? event->before->path : 0;
        uint32_t with_sender = event->sending ? longer(own, event->sending->path) : own;
        event->logged = with_sender + event->cost + event->left > bound;
        event->path = (event->logged ? own : with_sender) + event->cost;
        logged += event->logged;
    }
    return logged;
}

static uint32_t searched(const struct event *event)
{
    return event ? event->searched : 0;
}

/* The longest path up to `event`, by a search backwards that remembers what it has found. */
static void search(struct event *event, struct event **stack)
{
    size_t depth = 0;
    stack[depth++] = event;
    while (depth) {
        struct event *top = stack[depth - 1], *sending = top->logged ? NULL : top->sending;
        if (top->before && !top->before->searched) {
            stack[depth++] = top->before;
        } else if (sending && !sending->searched) {
            stack[depth++] = sending;
        } else {
            top->searched = top->cost + longer(searched(top->before), searched(sending));
            depth--;
        }
    }
}

static void check_bound(uint32_t bound)
{
    struct event **stack = memory(event_count * sizeof *stack);
    double longest = 0, needless = 0;
    for (size_t at = 0; at < event_count; at++)
        events[at].searched = 0;
    for (size_t at = 0; at < event_count; at++)
        search(events + at, stack);
    for (size_t at = 0; at < event_count; at++) {
        const struct event *event = events + at;
        longest = event->searched > longest ? event->searched : longest;
        if (event->logged)
            needless += longer(searched(event->before), searched(event->sending)) + event->cost + event->left <= bound;
    }
    check("longest replay", longest, bound);
    check("messages logged in vain", needless, 0);
    free(stack);
}

int main(int count, char **words)
{
    event_count = (size_t)argument(count, words, 1, 200000, 1, 100000000);
    long bounds = argument(count, words, 2, 60, 1, 1000000);
    /* A process alone must be able to keep the bound. */
    const uint32_t least = CHECKPOINT_EVERY * COST_MAX;
    uint64_t hash = CHECKSUM_START;
    simulate();
    check("messages logged without a bound", (double)log_messages(UINT32_MAX), 0);
    for (long turn = bounds; turn > 0; turn--) {
        uint32_t bound = least + (uint32_t)(turn - 1) * 20;
        size_t logged = log_messages(bound);
        printf("bound %6u: %zu messages logged\n", bound, logged);
        fflush(stdout);
        hash = checksum(hash, &logged, sizeof logged);
    }
    check_bound(least);
    for (const struct event *event = first_event; event; event = event->next)
        hash = checksum(hash, &event->path, sizeof event->path);
    printf("checksum %016llx\n", (unsigned long long)hash);
    return 0;
}
