/* Steps on interval timers and POSIX timers. Times are long, and are observed in units of 100 s from which half a unit
 * is missing, so that it does not matter how long a run takes. */
#include "interpreter.h"
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>

enum { UNIT = 100, TIMERS = 4 };

/* The kernel's ids of timers: of each process, and kept across an execve(2) only by the kernel. */
static int ids[TIMERS];
static bool is_made[TIMERS], has_expired[TIMERS];
static pid_t made_by;

static long units_of(struct timespec time)
{
    return time.tv_sec == 0 && time.tv_nsec == 0 ? 0 : time.tv_sec / UNIT + 1;
}

/* interval-timer WHICH UNITS INTERVAL-UNITS */
static long do_interval_timer(const long *a)
{
    struct itimerval time = {.it_value.tv_sec = a[1] > 0 ? a[1] * UNIT + UNIT / 2 : 0,
                             .it_interval.tv_sec = a[2] > 0 ? a[2] * UNIT + UNIT / 2 : 0};
    return setitimer((int)a[0], &time, NULL);
}

static void forget_others_timers(void)
{
    // A fork(2) inherits no timers.
    if (made_by != state->actors[me].process)
        memset(is_made, 0, sizeof is_made), memset(has_expired, 0, sizeof has_expired);
    made_by = state->actors[me].process;
}

/* timer NUMBER CLOCK KIND SIGNAL ACTOR. The kind is SIGEV_SIGNAL, SIGEV_NONE or SIGEV_THREAD_ID. */
static long do_timer(const long *a)
{
    struct sigevent event = {.sigev_notify = (int)a[2], .sigev_signo = (int)a[3], .sigev_value.sival_int = (int)a[0]};
    event._sigev_un._tid = tid_of(a[4]);
    forget_others_timers();
    int number = (int)(a[0] & (TIMERS - 1));
    if (is_made[number]) {
        errno = EBUSY;
        return -1;
    }
    long result = syscall(SYS_timer_create, (int)a[1], &event, &ids[number]);
    is_made[number] = result == 0;
    return result;
}

/* Uses the processor, since the clock of the timer may be one of processor time. */
static void await_expiry(int id)
{
    struct itimerspec left;
    for (clock_t start = clock(); clock() - start < CLOCKS_PER_SEC / 10;)
        if (syscall(SYS_timer_gettime, id, &left) != 0 || left.it_value.tv_sec != 0 || left.it_value.tv_nsec == 0)
            break;
    usleep(2000);
}

/* set-timer NUMBER UNITS INTERVAL-UNITS. Below 0 units, it expires at once. Known: one that has expired and is then set to
 * not run looks as if it had not been set again (docs/states.md). */
static long do_set_timer(const long *a)
{
    struct itimerspec time = {.it_value.tv_sec = a[1] > 0 ? a[1] * UNIT + UNIT / 2 : 0,
                              .it_value.tv_nsec = a[1] < 0 ? 1 : 0,
                              .it_interval.tv_sec = a[2] > 0 ? a[2] * UNIT + UNIT / 2 : 0};
    int number = (int)(a[0] & (TIMERS - 1));
    forget_others_timers();
    errno = EBUSY;
    if (has_expired[number] && a[1] == 0)
        return -1;
    errno = ENOENT;
    if (!is_made[number] || syscall(SYS_timer_settime, ids[number], 0, &time, NULL) != 0)
        return -1;
    has_expired[number] = a[1] < 0;
    if (a[1] < 0)
        await_expiry(ids[number]);
    return 0;
}

static long do_remove_timer(const long *a)
{
    int number = (int)(a[0] & (TIMERS - 1));
    forget_others_timers();
    errno = ENOENT;
    if (!is_made[number])
        return -1;
    is_made[number] = false;
    return syscall(SYS_timer_delete, ids[number]);
}

/* Reports whether the one who is named in the list gets no signal: nobody, or a thread that has ended. A restart makes
 * these the same (docs/states.md). */
static bool is_nobody(const char *line, pid_t tid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d", tid);
    return strstr(line, "none/") != NULL || (strstr(line, "/tid") != NULL && access(path, F_OK) != 0);
}

static bool is_actor(int number, pid_t id)
{
    const struct actor *actor = &state->actors[number];
    return actor->is_there && (actor->tid == id || actor->pid == id);
}

/* Says the kernel's list of timers, with actors instead of ids. */
static void say_list(void)
{
    char text[4096], *rest = text;
    read_text("/proc/self/timers", text, sizeof text);
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char *target = strstr(line, "id.");
        char *owner = target != NULL && target > line ? target - 1 : NULL;
        if (strncmp(line, "notify:", 7) == 0 && owner != NULL) {
            pid_t tid = atoi(target + 3);
            if (is_nobody(line, tid)) {
                say(" notify: nobody");
                continue;
            }
            *owner = '\0';
            // A new thread may have the id of one that is gone.
            int actor = 0;
            while (actor < ACTORS && !is_actor(actor, tid))
                actor++;
            say(" %s actor %d", line, actor);
        } else if (strncmp(line, "ClockID: -", 10) == 0) {
            // A clock of processor time: the rest of the number is an id.
            say(" ClockID: %d of a process or a thread", atoi(line + 9) & 7);
        } else if (line[0] != '\0' && strncmp(line, "ID:", 3) != 0) {
            // Known: a restart forgets which ids timers had that are gone, so new ones get other ids.
            say(" %s", line);
        }
    }
}

void observe_timers(void)
{
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
        struct itimerval time;
        if (getitimer(which, &time) != 0)
            continue;
        long value = units_of((struct timespec){time.it_value.tv_sec, time.it_value.tv_usec});
        long interval = units_of((struct timespec){time.it_interval.tv_sec, time.it_interval.tv_usec});
        if (value != 0 || interval != 0)
            say("\n  interval timer %d: %ld %ld", which, value, interval);
    }
    forget_others_timers();
    for (int number = 0; number < TIMERS; number++) {
        struct itimerspec time;
        if (!is_made[number] || syscall(SYS_timer_gettime, ids[number], &time) != 0)
            continue;
        say("\n  timer %d: %ld %ld overrun %ld", number, units_of(time.it_value), units_of(time.it_interval),
            syscall(SYS_timer_getoverrun, ids[number]));
    }
    char text[4096];
    if (read_text("/proc/self/timers", text, sizeof text) > 0) {
        say("\n  list of timers:");
        say_list();
    }
}

const struct operation timer_operations[] = {
    {"interval-timer", do_interval_timer},
    {"timer", do_timer},
    {"set-timer", do_set_timer},
    {"remove-timer", do_remove_timer},
    {0},
};
