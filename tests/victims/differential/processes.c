/* Steps on what belongs to a process or a thread as a whole: sessions and groups, limits, priorities, switches,
 * names. */
#include "interpreter.h"
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* set-group ACTOR LEADER. A child that has executed a program may not be moved any more; after a restart it may
 * (docs/states.md). */
static long do_set_group(const long *a)
{
    const struct actor *actor = &state->actors[(unsigned long)a[0] % ACTORS];
    errno = EACCES;
    if (actor->has_executed && actor->pid != getpid())
        return -1;
    return setpgid(pid_of(a[0]), pid_of(a[1]));
}

static long do_new_session(const long *a)
{
    (void)a;
    return setsid() < 0 ? -1 : 0;
}

/* nice ACTOR VALUE */
static long do_nice(const long *a)
{
    return setpriority(PRIO_PROCESS, (id_t)tid_of(a[0]), (int)a[1]);
}

/* schedule ACTOR POLICY PRIORITY */
static long do_schedule(const long *a)
{
    struct sched_param priority = {.sched_priority = (int)a[2]};
    return sched_setscheduler(tid_of(a[0]), (int)a[1], &priority);
}

/* run-on ACTOR MASK-OF-PROCESSORS */
static long do_run_on(const long *a)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int processor = 0; processor < 16; processor++)
        if (a[1] >> processor & 1)
            CPU_SET(processor, &set);
    return sched_setaffinity(tid_of(a[0]), sizeof set, &set);
}

/* disk-priority ACTOR VALUE */
static long do_disk_priority(const long *a)
{
    return syscall(SYS_ioprio_set, 1, tid_of(a[0]), a[1]);
}

static long do_umask(const long *a)
{
    return umask((mode_t)a[0]);
}

static long do_change_directory(const long *a)
{
    return chdir(path_of(a[0]));
}

static long do_enter(const long *a)
{
    return fchdir(fd_of(a[0]));
}

/* limit ACTOR RESOURCE SOFT HARD. -1 leaves the hard limit as it is. */
static long do_limit(const long *a)
{
    struct rlimit limit;
    if (prlimit(pid_of(a[0]), (__rlimit_resource_t)a[1], NULL, &limit) != 0)
        return -1;
    limit.rlim_cur = (rlim_t)a[2];
    if (a[3] >= 0)
        limit.rlim_max = (rlim_t)a[3];
    return prlimit(pid_of(a[0]), (__rlimit_resource_t)a[1], &limit, NULL);
}

/* switch OPTION VALUE SECOND: prctl(2) */
static long do_switch(const long *a)
{
    return prctl((int)a[0], a[1], a[2], 0, 0);
}

static long do_personality(const long *a)
{
    return personality((unsigned long)a[0]) < 0 ? -1 : 0;
}

static long do_name(const long *a)
{
    char name[16];
    snprintf(name, sizeof name, "name-%ld", a[0]);
    return prctl(PR_SET_NAME, name);
}

static long write_number(const char *path, const char *format, long number)
{
    char text[32];
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t written = write(fd, text, (size_t)snprintf(text, sizeof text, format, number));
    int error = errno;
    close(fd);
    errno = error;
    return written;
}

static long do_score(const long *a)
{
    return write_number("/proc/self/oom_score_adj", "%ld", a[0]);
}

static long do_dump_filter(const long *a)
{
    return write_number("/proc/self/coredump_filter", "0x%lx", a[0]);
}

const struct operation process_operations[] = {
    {"set-group", do_set_group},
    {"new-session", do_new_session},
    {"nice", do_nice},
    {"schedule", do_schedule},
    {"run-on", do_run_on},
    {"disk-priority", do_disk_priority},
    {"umask", do_umask},
    {"change-directory", do_change_directory},
    {"enter", do_enter},
    {"limit", do_limit},
    {"switch", do_switch},
    {"personality", do_personality},
    {"name", do_name},
    {"oom-score", do_score},
    {"dump-filter", do_dump_filter},
    {0},
};
