/* Signals: handlers on an alternate stack, signals that wait blocked with their values, calls that restart and calls
 * that do not, sigsuspend and pause woken by another thread, a fault that is survived. Every EINTR must have its handler. */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

enum { WAITING = 6 };

static volatile sig_atomic_t handled[65];
static char alternate[128 * 1024];
static sigjmp_buf back;
static char *guard;
static pthread_t main_thread;
static _Atomic int asleep, finished, reader_ready;
static int channel[2];

static void count(int signal)
{
    handled[signal]++;
}

static void on_alternate_stack(int signal, siginfo_t *info, void *context)
{
    char here[4096];
    (void)context;
    memset(here, signal, sizeof here);
    CHECK(&here[0] >= &alternate[0] && &here[0] < &alternate[sizeof alternate]);
    CHECK(info->si_signo == signal && info->si_pid == getpid());
    handled[signal]++;
}

static void survive_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    CHECK(signal == SIGSEGV && (char *)info->si_addr == guard + 40);
    handled[signal]++;
    siglongjmp(back, 1);
}

static void handle(int signal, void (*simple)(int), void (*full)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (full)
        action.sa_sigaction = full;
    else
        action.sa_handler = simple;
    action.sa_flags = flags | (full ? SA_SIGINFO : 0);
    CHECK(sigaddset(&action.sa_mask, SIGRTMIN + 3) == 0);
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static void block(int how, int signal)
{
    sigset_t set;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, signal) == 0);
    CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

/* Some real time in which a checkpoint may fall, without a system call. */
static uint64_t busy(uint64_t seed)
{
    uint64_t sum = 0;
    for (int i = 0; i < 60000; i++)
        sum ^= next_number(&seed);
    return sum;
}

static uint64_t raise_on_alternate_stack(uint64_t sum, long round)
{
    int before = handled[SIGUSR1];
    CHECK(raise(SIGUSR1) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    /* kill may pick any thread, but all others have it blocked. */
    CHECK(handled[SIGUSR1] == before + 2);
    return sum * 31 + (uint64_t)round;
}

/* Queues values to the process and to this thread, lets them wait, and takes them in order. */
static uint64_t wait_blocked(uint64_t sum, long round)
{
    int to_process = SIGRTMIN + 1, to_thread = SIGRTMIN + 2;
    for (int i = 0; i < WAITING; i++) {
        union sigval value = {.sival_int = (int)(round * WAITING + i)};
        CHECK(sigqueue(getpid(), to_process, value) == 0);
        CHECK(pthread_sigqueue(pthread_self(), to_thread, value) == 0);
    }
    sum += busy((uint64_t)round);
    sigset_t waiting;
    CHECK(sigpending(&waiting) == 0 && sigismember(&waiting, to_process) && sigismember(&waiting, to_thread));
    for (int i = 0; i < 2 * WAITING; i++) {
        sigset_t one;
        siginfo_t info;
        int wanted = i % 2 ? to_process : to_thread;
        CHECK(sigemptyset(&one) == 0 && sigaddset(&one, wanted) == 0);
        CHECK(sigwaitinfo(&one, &info) == wanted);
        CHECK(info.si_code == SI_QUEUE && info.si_pid == getpid() && info.si_uid == getuid());
        CHECK(info.si_value.sival_int == round * WAITING + i / 2);
        sum = fold(sum, &info.si_value.sival_int, sizeof(int));
    }
    CHECK(sigpending(&waiting) == 0 && !sigismember(&waiting, to_process) && !sigismember(&waiting, to_thread));
    return sum;
}

static void fault_and_survive(void)
{
    int before = handled[SIGSEGV];
    if (sigsetjmp(back, 1) == 0) {
        guard[40] = 1;
        CHECK(!"the guard page let a write through");
    }
    CHECK(handled[SIGSEGV] == before + 1);
}

/* Wakes the main thread out of sigsuspend and pause: again and again, as the first signal may come too early. */
static void *waker(void *unused)
{
    (void)unused;
    const struct timespec a_while = {0, 300000};
    while (!finished) {
        CHECK(nanosleep(&a_while, NULL) == 0);
        if (asleep)
            CHECK(pthread_kill(main_thread, SIGUSR2) == 0);
    }
    return NULL;
}

static void suspend_until_woken(void)
{
    sigset_t was, is;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &was) == 0);
    CHECK(sigismember(&was, SIGUSR2) && sigismember(&was, SIGRTMIN + 1));
    sigset_t open_to_waker = was;
    CHECK(sigdelset(&open_to_waker, SIGUSR2) == 0);
    int before = handled[SIGUSR2];
    asleep = 1;
    errno = 0;
    CHECK(sigsuspend(&open_to_waker) == -1 && errno == EINTR);
    CHECK(handled[SIGUSR2] > before);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &is) == 0 && memcmp(&is, &was, sizeof(long)) == 0);
    block(SIG_UNBLOCK, SIGUSR2);
    before = handled[SIGUSR2];
    errno = 0;
    CHECK(pause() == -1 && errno == EINTR);
    CHECK(handled[SIGUSR2] > before);
    asleep = 0;
    block(SIG_BLOCK, SIGUSR2);
}

/* Reads with a handler that restarts and with one that does not: the first never shows EINTR, the second only after its
 * handler ran. */
static void *reader(void *unused)
{
    (void)unused;
    block(SIG_UNBLOCK, SIGRTMIN + 4);
    block(SIG_UNBLOCK, SIGRTMIN + 5);
    reader_ready = 1;
    long sum = 0;
    for (;;) {
        unsigned char byte;
        int before = handled[SIGRTMIN + 5];
        ssize_t got = read(channel[0], &byte, 1);
        if (got == 0)
            return (void *)sum;
        if (got < 0) {
            CHECK(errno == EINTR && handled[SIGRTMIN + 5] > before);
            continue;
        }
        sum += byte;
    }
}

static long disturb_reader(pthread_t thread, long round)
{
    unsigned char byte = (unsigned char)round;
    CHECK(pthread_kill(thread, SIGRTMIN + 4) == 0);
    CHECK(pthread_kill(thread, SIGRTMIN + 5) == 0);
    busy((uint64_t)round);
    CHECK(write(channel[1], &byte, 1) == 1);
    return byte;
}

static void check_dispositions(void)
{
    struct sigaction now;
    CHECK(sigaction(SIGUSR1, NULL, &now) == 0);
    CHECK(now.sa_sigaction == on_alternate_stack && (now.sa_flags & SA_ONSTACK) && (now.sa_flags & SA_SIGINFO));
    CHECK(sigismember(&now.sa_mask, SIGRTMIN + 3) && !sigismember(&now.sa_mask, SIGRTMIN + 1));
    CHECK(sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
    CHECK(sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    stack_t stack;
    CHECK(sigaltstack(NULL, &stack) == 0);
    CHECK(stack.ss_sp == alternate && stack.ss_size == sizeof alternate && stack.ss_flags == 0);
}

static void prepare(void)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    CHECK(sigaltstack(&stack, NULL) == 0);
    guard = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(guard != MAP_FAILED);
    handle(SIGUSR1, NULL, on_alternate_stack, SA_ONSTACK);
    handle(SIGSEGV, NULL, survive_fault, SA_ONSTACK);
    handle(SIGUSR2, count, NULL, 0);
    handle(SIGRTMIN + 4, count, NULL, SA_RESTART);
    handle(SIGRTMIN + 5, count, NULL, 0);
    handle(SIGPIPE, SIG_IGN, NULL, 0);
    /* Threads made now inherit a mask with everything blocked, so that signals to the process find the main thread. */
    sigset_t all;
    CHECK(sigfillset(&all) == 0 && pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    CHECK(pipe(channel) == 0);
}

int main(int argc, char **argv)
{
    long rounds = amount(argc, argv, 2000);
    pthread_t waking, reading;
    prepare();
    main_thread = pthread_self();
    CHECK(pthread_create(&waking, NULL, waker, NULL) == 0);
    CHECK(pthread_create(&reading, NULL, reader, NULL) == 0);
    while (!reader_ready)
        sched_yield();
    block(SIG_UNBLOCK, SIGUSR1);
    block(SIG_UNBLOCK, SIGSEGV);
    uint64_t sum = FOLD_START;
    long sent = 0;
    for (long round = 0; round < rounds; round++) {
        sum = raise_on_alternate_stack(sum, round);
        sum = wait_blocked(sum, round);
        fault_and_survive();
        suspend_until_woken();
        sent += disturb_reader(reading, round);
        check_dispositions();
    }
    finished = 1;
    CHECK(pthread_join(waking, NULL) == 0);
    CHECK(close(channel[1]) == 0);
    void *received;
    CHECK(pthread_join(reading, &received) == 0 && (long)received == sent);
    CHECK(handled[SIGUSR1] == 2 * rounds && handled[SIGSEGV] == rounds);
    printf("signals: sum %016lx rounds %ld read %ld\n", (unsigned long)sum, rounds, sent);
    return 0;
}
