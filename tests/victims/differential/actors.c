/* Actors: how they are made, wait for steps, and end. */
#include "interpreter.h"
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { THREAD_STACK_BYTES = 1 << 18 };

void take_place(int number, int process)
{
    struct actor *self = &state->actors[number];
    me = number;
    self->process = process;
    self->pid = getpid();
    self->tid = (pid_t)syscall(SYS_gettid);
    self->is_stopped = self->is_busy = false;
    __atomic_store_n(&self->is_there, true, __ATOMIC_RELEASE);
}

_Noreturn void act(int number)
{
    struct actor *self = &state->actors[number];
    for (;;) {
        uint32_t asked = __atomic_load_n(&self->asked, __ATOMIC_ACQUIRE);
        if (asked == self->answered) {
            syscall(SYS_futex, &self->asked, FUTEX_WAIT, asked, NULL, NULL, 0);
            continue;
        }
        char step[STEP_BYTES];
        snprintf(step, sizeof step, "%s", self->step);
        // A ping comes between two answers.
        if (strcmp(step, "ping") == 0) {
            self->pid = getpid();
            self->tid = (pid_t)syscall(SYS_gettid);
        } else {
            perform(step);
        }
        __atomic_store_n(&self->answered, asked, __ATOMIC_RELEASE);
        syscall(SYS_futex, &self->answered, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

pid_t pid_of(long actor)
{
    return actor >= 0 && actor < ACTORS && state->actors[actor].pid > 0 ? state->actors[actor].pid : INT_MAX;
}

pid_t tid_of(long actor)
{
    return actor >= 0 && actor < ACTORS && state->actors[actor].tid > 0 ? state->actors[actor].tid : INT_MAX;
}

const char *who(pid_t pid)
{
    static __thread char name[16];
    // A process outside the namespace of a restarted job has the id 0 there.
    for (int living = 1; living >= 0 && pid != 0; living--)
        for (int number = 0; number < ACTORS; number++) {
            struct actor *actor = &state->actors[number];
            if (actor->process == number && actor->pid == pid && actor->is_there == living) {
                snprintf(name, sizeof name, "actor-%d", number);
                return name;
            }
        }
    return "a stranger";
}

/* Returns whether an actor of this number can be made. */
static bool is_free(long number)
{
    errno = EBUSY;
    return number > 0 && number < ACTORS && state->actors[number].pid == 0;
}

static long do_fork(const long *argument)
{
    if (!is_free(argument[0]))
        return -1;
    struct actor *made = &state->actors[argument[0]];
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0) {
        memset(made->handled, 0, sizeof made->handled);
        take_place((int)argument[0], (int)argument[0]);
        act((int)argument[0]);
    }
    while (!__atomic_load_n(&made->is_there, __ATOMIC_ACQUIRE))
        usleep(100);
    return 0;
}

static void *thread(void *argument)
{
    int *place = argument;
    take_place(place[0], place[1]);
    act(place[0]);
}

static long do_thread(const long *argument)
{
    if (!is_free(argument[0]))
        return -1;
    int place[2] = {(int)argument[0], state->actors[me].process};
    pthread_t made;
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES) == 0);
    CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    int error = pthread_create(&made, &attributes, thread, place);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        errno = error;
        return -1;
    }
    while (!__atomic_load_n(&state->actors[place[0]].is_there, __ATOMIC_ACQUIRE))
        usleep(100);
    return 0;
}

/* Ends a process, or a thread. The director, actor 0, stays. */
static long do_exit(const long *argument)
{
    struct actor *self = &state->actors[me];
    if (me == 0)
        return -1;
    if (self->process != me)
        pthread_exit(NULL);
    _exit((int)argument[0]);
}

static bool has_threads(void)
{
    bool has = false;
    for (int number = 0; number < ACTORS; number++)
        has |= state->actors[number].process == state->actors[me].process && number != state->actors[me].process
               && state->actors[number].pid != 0;
    return has;
}

/* Waits for any child. The kernel asks one thread's children after the other's, and a restart makes all of them the
 * main thread's (docs/restart.md). So a process with threads asks for one child after the other. */
static int wait_for_any(siginfo_t *info, int options)
{
    if (!has_threads())
        return waitid(P_ALL, 0, info, options);
    int result = -1;
    for (int number = 0; number < ACTORS && info->si_pid == 0; number++)
        if (state->actors[number].pid != 0 && waitid(P_PID, (id_t)state->actors[number].pid, info, options) == 0)
            result = 0;
    return result;
}

/* wait OPTIONS ACTOR. Actor 0 stands for any child. */
static long do_wait(const long *argument)
{
    static const char *const codes[] = {"none", "exited", "killed", "dumped", "trapped", "stopped", "continued"};
    siginfo_t info = {0};
    int options = WNOHANG | (argument[0] ? (int)argument[0] : WEXITED);
    if (argument[1] ? waitid(P_PID, (id_t)pid_of(argument[1]), &info, options) : wait_for_any(&info, options))
        return -1;
    say(" %s", who(info.si_pid));
    if (info.si_pid != 0)
        say(" %s %d", codes[info.si_code >= 0 && info.si_code < 7 ? info.si_code : 0], info.si_status);
    return 0;
}

/* Executes the interpreter again, in the same process. Its other threads end. */
static long do_execute(const long *argument)
{
    (void)argument;
    struct actor *self = &state->actors[me];
    if (self->process != me) {
        errno = EBUSY;
        return -1;
    }
    char number[16];
    snprintf(number, sizeof number, "%d", me);
    char *words[] = {state->executable, "--actor", number, NULL};
    // What it was asked for is done. For the director, the program that follows continues with the next line.
    for (int other = 1; other < ACTORS; other++)
        if (other != me && state->actors[other].process == me && state->actors[other].pid == self->pid)
            state->actors[other].is_there = false;
    if (me == 0)
        dprintf(1, "0 execute: begins again\n");
    else
        say(" begins again\n");
    if (me != 0)
        self->answered = self->asked;
    self->has_executed = true;
    execve(state->executable, words, environ);
    return -1;
}

/* Waits in a call until another actor's step ends the wait. */
static long do_hang(const long *argument)
{
    int fd = fd_of(argument[1]);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    struct epoll_event event;
    struct sembuf operation = {.sem_num = (unsigned short)argument[2], .sem_op = -1};
    struct {
        long type;
        char bytes[512];
    } message;
    struct timespec long_time = {100000, 0};
    siginfo_t info = {0};
    sigset_t set;
    unsigned char bytes[512];
    ssize_t got;
    switch (argument[0]) {
    case 0:
        if ((got = read(fd, bytes, sizeof bytes)) >= 0 && !is_structured(fd))
            say_bytes(bytes, got);
        return got;
    case 1:
        return poll(&polled, 1, -1);
    case 2:
        return nanosleep(&long_time, NULL);
    case 3:
        sigemptyset(&set);
        return sigsuspend(&set);
    case 4:
        return epoll_wait(fd, &event, 1, -1);
    case 5:
        return flock(fd, LOCK_EX);
    case 6:
        return semop(state->semaphores[argument[1] % OBJECTS], &operation, 1);
    case 7:
        got = msgrcv(state->queues[argument[1] % OBJECTS], &message, sizeof message.bytes, 0, MSG_NOERROR);
        return got;
    case 8:
        /* See wait_for_any. */
        if (has_threads()) {
            errno = EINVAL;
            return -1;
        }
        got = waitid(P_ALL, 0, &info, WEXITED);
        say(" %s %d", who(info.si_pid), info.si_status);
        return got;
    case 9:
        sigemptyset(&set);
        sigaddset(&set, (int)argument[1]);
        got = sigwaitinfo(&set, &info);
        say(" code %d from %s", info.si_code, who(info.si_pid));
        return got;
    case 10:
        return recv(fd, bytes, sizeof bytes, 0);
    case 11:
        return place(accept(fd, NULL, NULL), argument[2]);
    case 12:
        return pause();
    default:
        errno = EINVAL;
        return -1;
    }
}

const struct operation actor_operations[] = {
    {"fork", do_fork},   {"thread", do_thread},   {"exit", do_exit}, {"wait", do_wait},
    {"hang", do_hang},   {"execute", do_execute}, {0},
};
