/* What can be observed of a process and a thread as a whole, and the step that observes everything. */
#include "interpreter.h"
#include <linux/kcmp.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* Lines of /proc/PID/status that differ by nature are left out: ids (said as actors elsewhere), sizes of memory and
 * of the table of descriptors, which are the kernel's business, and counts of context switches. */
static const char *const STATUS_LINES[] = {
    "Name",      "Umask",      "Uid",        "Gid",           "Groups",       "Threads",      "SigPnd",
    "ShdPnd",    "NoNewPrivs", "Seccomp",    "THP_enabled",   "Cpus_allowed", "Mems_allowed", "CoreDumping",
    "SigIgn",    "SigCgt",     "SigBlk",     "VmLck",         "VmPin",        "HugetlbPages", "untag_mask",
    "Kthread",   "State",      "Speculation_Store_Bypass",    "SpeculationIndirectBranch",    "x86_Thread_features",
};

static bool is_observed(const char *line)
{
    size_t length = strcspn(line, ":");
    for (size_t each = 0; each < sizeof STATUS_LINES / sizeof *STATUS_LINES; each++)
        if (strlen(STATUS_LINES[each]) == length && strncmp(line, STATUS_LINES[each], length) == 0)
            return true;
    return false;
}

static void say_status(void)
{
    char text[8192], *rest = text;
    read_text("/proc/thread-self/status", text, sizeof text);
    say("\n  status");
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        for (char *tab = line; (tab = strchr(tab, '\t')) != NULL;)
            *tab = ' ';
        if (is_observed(line))
            say(" %s;", line);
    }
}

static void say_file(const char *path)
{
    char text[4096];
    read_text(path, text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    say(" %s %s;", path + strlen("/proc/self/"), text);
}

static void say_link(const char *path)
{
    char text[4200] = "";
    ssize_t length = readlink(path, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    size_t base = strlen(state->base);
    bool is_inside = strncmp(text, state->base, base) == 0;
    // A removed directory comes back as another nameless one.
    if (strstr(text, " (deleted)") != NULL)
        is_inside = false, snprintf(text, sizeof text, "(deleted)");
    say(" %s %s%s;", path + strlen("/proc/self/"), is_inside ? "BASE" : "", is_inside ? text + base : text);
}

static void say_switches(void)
{
    static const int with_address[] = {PR_GET_PDEATHSIG, PR_GET_TSC, PR_GET_CHILD_SUBREAPER};
    static const int with_result[] = {PR_GET_DUMPABLE,    PR_GET_KEEPCAPS,     PR_GET_TIMING,      PR_GET_SECCOMP,
                                      PR_GET_SECUREBITS,  PR_GET_TIMERSLACK,   PR_MCE_KILL_GET,    PR_GET_NO_NEW_PRIVS,
                                      PR_GET_THP_DISABLE, PR_GET_IO_FLUSHER,   66 /* MDWE */,      68 /* merging */};
    say("\n  switches");
    for (size_t each = 0; each < sizeof with_address / sizeof *with_address; each++) {
        int value = -1;
        prctl(with_address[each], &value);
        say(" %d:%d", with_address[each], value);
    }
    for (size_t each = 0; each < sizeof with_result / sizeof *with_result; each++)
        say(" %d:%d", with_result[each], prctl(with_result[each], 0, 0, 0, 0));
    for (int kind = 0; kind < 3; kind++)
        say(" speculation %d:%d", kind, prctl(PR_GET_SPECULATION_CTRL, kind, 0, 0, 0));
    say(" personality %x", personality(0xffffffff));
}

static void say_limits(void)
{
    say("\n  limits");
    for (int resource = 0; resource < (int)RLIMIT_NLIMITS; resource++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)resource, &limit) == 0)
            say(" %d:%ld/%ld", resource, (long)limit.rlim_cur, (long)limit.rlim_max);
    }
}

static void say_scheduling(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
        uint32_t util_min, util_max;
    } attributes = {0};
    cpu_set_t processors;
    CPU_ZERO(&processors);
    CHECK(syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0);
    sched_getaffinity(0, sizeof processors, &processors);
    say("\n  scheduling policy %u flags %lx nice %d priority %u times %lu %lu %lu util %u %u", attributes.policy,
        (unsigned long)attributes.flags, attributes.nice, attributes.priority, (unsigned long)attributes.runtime,
        (unsigned long)attributes.deadline, (unsigned long)attributes.period, attributes.util_min, attributes.util_max);
    say(" processors %lx disk %lx slack %d", (unsigned long)fold(FOLD_START, &processors, sizeof processors),
        syscall(SYS_ioprio_get, 1, 0), prctl(PR_GET_TIMERSLACK));
}

/* Adds the children that a thread has made. A new child may have the id of one that is gone, and is a later actor. */
static void take_children(int number, bool *is_child)
{
    char path[64], text[1024], *rest = text, *end;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", state->actors[number].tid);
    read_text(path, text, sizeof text);
    for (long pid; (pid = strtol(rest, &end, 10)) != 0; rest = end)
        for (int child = ACTORS - 1; child >= 0; child--)
            if (state->actors[child].pid == (pid_t)pid && state->actors[child].process == child) {
                is_child[child] = true;
                break;
            }
}

/* Those of all threads together, since children belong to main threads after a restart (docs/restart.md). */
static void say_children(void)
{
    bool is_child[ACTORS] = {false};
    for (int number = 0; number < ACTORS; number++)
        if (state->actors[number].is_there && state->actors[number].process == me)
            take_children(number, is_child);
    say("\n  children");
    for (int number = 0; number < ACTORS; number++)
        if (is_child[number])
            say(" %d", number);
}

void observe_process(void)
{
    say_children();
    say("\n  parent %s", who(getppid()));
    say(" group %s", who(getpgrp()));
    say(" session %s", who(getsid(0)));
    say_switches();
    say_limits();
    say("\n ");
    say_link("/proc/self/cwd");
    say_link("/proc/self/root");
    say_file("/proc/self/oom_score_adj");
    say_file("/proc/self/coredump_filter");
    say_file("/proc/self/loginuid");
}

void observe_task(void)
{
    say_status();
    say_scheduling();
}

/* Says which actors share what with an earlier one. */
static void say_sharing(void)
{
    static const struct {
        int kind;
        const char *name;
    } shared[] = {{KCMP_VM, "memory"}, {KCMP_FILES, "descriptors"}, {KCMP_FS, "directory"},
                  {KCMP_SIGHAND, "handlers"}};
    say("\n  shares");
    for (int number = 0; number < me; number++) {
        if (!state->actors[number].is_there)
            continue;
        for (size_t each = 0; each < sizeof shared / sizeof *shared; each++)
            if (syscall(SYS_kcmp, tid_of(number), tid_of(me), shared[each].kind, 0, 0) == 0)
                say(" %s/%d", shared[each].name, number);
    }
}

/* observe PARTS: 1 the process and the thread, 2 signals and timers, 4 memory, 8 descriptors, 16 System V objects. 0
 * stands for all. */
static long do_observe(const long *a)
{
    long parts = a[0] == 0 ? ~0l : a[0];
    bool is_main = state->actors[me].process == me;
    if (parts & 1) {
        observe_task();
        say_sharing();
        if (is_main)
            observe_process();
    }
    if (parts & 2) {
        observe_signals();
        if (is_main)
            observe_timers();
    }
    if (parts & 4 && is_main)
        observe_memory();
    if (parts & 8 && is_main)
        observe_descriptors();
    if (parts & 16 && me == 0)
        observe_shared_objects();
    say("\n ");
    return 0;
}

const struct operation observations[] = {
    {"observe", do_observe},
    {0},
};
