/* Steps on signals, and what can be observed of them. Masks in scripts are numbers in which bit 0 stands for signal
 * 1. */
#include "interpreter.h"
#include <sys/syscall.h>

static void count_signal(int number, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    state->actors[state->actors[me].process].handled[number]++;
}

/* Without SIGSEGV and SIGBUS, which the interpreter handles, and without the signals of the C library. */
static sigset_t set_of(long mask)
{
    sigset_t set;
    sigemptyset(&set);
    for (int number = 1; number < 64; number++)
        if ((unsigned long)mask >> (number - 1) & 1 && number != SIGSEGV && number != SIGBUS)
            sigaddset(&set, number);
    return set;
}

/* handle SIGNAL KIND FLAGS MASK. Kind 0: the default, 1: ignored, 2: counted. */
static long do_handle(const long *a)
{
    struct sigaction action = {.sa_flags = (int)a[2], .sa_mask = set_of(a[3])};
    if (a[0] == SIGSEGV || a[0] == SIGBUS) {
        errno = EINVAL;
        return -1;
    }
    if (a[1] == 2) {
        action.sa_sigaction = count_signal;
        action.sa_flags |= SA_SIGINFO;
    } else {
        action.sa_handler = a[1] == 0 ? SIG_DFL : SIG_IGN;
    }
    return sigaction((int)a[0], &action, NULL);
}

/* block HOW MASK */
static long do_block(const long *a)
{
    sigset_t set = set_of(a[1]);
    return sigprocmask((int)a[0], &set, NULL);
}

static char stack[1 << 16];

/* alternate-stack BYTES FLAGS. 0 bytes take it away. */
static long do_alternate_stack(const long *a)
{
    stack_t wanted = {.ss_sp = stack, .ss_size = (size_t)(a[0] & 0xffff), .ss_flags = (int)a[1]};
    if (a[0] == 0)
        wanted.ss_flags = SS_DISABLE;
    return sigaltstack(&wanted, NULL);
}

/* Reports whether a signal ends its process with a core file. Then the thread that sends it may still return from the
 * call, or not. */
static bool makes_core(int number)
{
    static const int all[] = {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGSYS, SIGXCPU, SIGXFSZ};
    struct sigaction action;
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        if (all[at] == number)
            return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL;
    return false;
}

/* kill ACTOR SIGNAL HOW VALUE. How 0: to the process, 1: to the thread, 2: to the process with a value, 3: to the
 * process group that the actor leads, 4: to the thread with a value. */
static long do_kill(const long *a)
{
    siginfo_t info = {.si_code = SI_QUEUE, .si_signo = (int)a[1]};
    info.si_value.sival_int = (int)a[3];
    info.si_pid = getpid();
    info.si_uid = getuid();
    pid_t pid = pid_of(a[0]), tid = tid_of(a[0]);
    // The director must go on. These end or stop whoever has not handled them.
    bool may_end = a[1] == SIGKILL || a[1] == SIGSTOP || a[1] == SIGTSTP || a[1] == SIGTTIN || a[1] == SIGTTOU;
    if ((may_end && state->actors[0].pid == pid) || (makes_core((int)a[1]) && pid == getpid())) {
        errno = EPERM;
        return -1;
    }
    switch (a[2]) {
    case 0:
        return kill(pid, (int)a[1]);
    case 1:
        return syscall(SYS_tgkill, pid, tid, (int)a[1]);
    case 2:
        return sigqueue(pid, (int)a[1], info.si_value);
    case 3:
        return kill(-pid, (int)a[1]);
    default:
        return syscall(SYS_rt_tgsigqueueinfo, pid, tid, (int)a[1], &info);
    }
}

static void say_signal(const siginfo_t *info)
{
    say(" [%d code %d", info->si_signo, info->si_code);
    if (info->si_code == SI_QUEUE || info->si_code == SI_TIMER || info->si_code == SI_MESGQ)
        say(" value %d", info->si_value.sival_int);
    if (info->si_code <= 0 && info->si_code != SI_TIMER)
        say(" from %s user %u", who(info->si_pid), info->si_uid);
    if (info->si_signo == SIGCHLD && info->si_code > 0)
        say(" about %s status %d", who(info->si_pid), info->si_status);
    if ((info->si_signo == SIGIO || info->si_signo >= SIGRTMIN) && info->si_code > 0)
        say(" descriptor %d band %lx", info->si_fd, info->si_band);
    say("]");
}

/* take MASK COUNT: takes pending signals, one after the other. */
static long do_take(const long *a)
{
    sigset_t set = set_of(a[0]);
    struct timespec at_once = {0, 0};
    siginfo_t info = {0};
    long taken = 0;
    while (taken < a[1] && sigtimedwait(&set, &info, &at_once) > 0) {
        say_signal(&info);
        taken++;
    }
    return taken;
}

static void say_handled(void)
{
    const struct actor *process = &state->actors[state->actors[me].process];
    for (int number = 1; number < SIGNALS; number++)
        if (process->handled[number] > 0)
            say(" %d:%u", number, process->handled[number]);
}

static void say_actions(void)
{
    // The kernel's own structure shows SA_RESTORER and the whole mask.
    struct {
        void (*handler)(int);
        unsigned long flags;
        void *restorer;
        unsigned long mask;
    } action;
    for (int number = 1; number < SIGNALS; number++) {
        if (syscall(SYS_rt_sigaction, number, NULL, &action, 8) != 0)
            continue;
        // The flags and the mask of a default action mean nothing, and are forgotten (docs/states.md).
        if (action.handler == SIG_DFL)
            continue;
        say("\n  signal %d %s flags %lx mask %lx", number, action.handler == SIG_IGN ? "ignored" : "handled",
            action.flags, action.mask);
    }
}

void observe_signals(void)
{
    stack_t now;
    unsigned long bits = 0;
    CHECK(sigaltstack(NULL, &now) == 0 && syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &bits, 8) == 0);
    say("\n  blocked %lx stack %s %zu flags %x", bits, now.ss_sp == stack ? "own" : "other", now.ss_size, now.ss_flags);
    if (state->actors[me].process == me) {
        say_actions();
        say("\n  handled");
        say_handled();
    }
}

const struct operation signal_operations[] = {
    {"handle", do_handle},
    {"block", do_block},
    {"alternate-stack", do_alternate_stack},
    {"kill", do_kill},
    {"take", do_take},
    {0},
};
