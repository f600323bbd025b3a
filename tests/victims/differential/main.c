/* Directs the actors: gives each step of the script to the actor that it names, waits for the answer, and writes it to
 * standard output. Before the next step it waits until all actors have handled their signals, so that the order of
 * all that happens is the same in each run. */
#include "interpreter.h"
#include <limits.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* How long an actor may take before its state is looked at. */
static const struct timespec GLANCE = {0, 1000000};

enum { STATE_ABSENT = 0 };

/* Returns the letter for the state of an actor's thread, as in /proc/PID/stat. */
static char thread_state(const struct actor *actor)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", actor->pid, actor->tid);
    if (read_text(path, text, sizeof text) == 0)
        return STATE_ABSENT;
    const char *end = strrchr(text, ')');
    return end != NULL ? end[2] : STATE_ABSENT;
}

static bool has_answered(struct actor *actor)
{
    return __atomic_load_n(&actor->answered, __ATOMIC_ACQUIRE) == actor->asked;
}

static void glance(struct actor *actor)
{
    uint32_t seen = __atomic_load_n(&actor->answered, __ATOMIC_ACQUIRE);
    if (seen != actor->asked)
        syscall(SYS_futex, &actor->answered, FUTEX_WAIT, seen, &GLANCE, NULL, 0);
}

/* Returns whether the actor has answered. It may have ended or been stopped instead. */
static bool await_answer(struct actor *actor)
{
    for (;;) {
        if (has_answered(actor))
            return true;
        glance(actor);
        char letter = thread_state(actor);
        if (has_answered(actor))
            return true;
        actor->is_stopped = letter == 'T';
        actor->is_there = letter != STATE_ABSENT && letter != 'Z' && letter != 'X';
        if (actor->is_stopped || !actor->is_there)
            return false;
    }
}

/* Returns whether an actor that may wait in a call has answered. It has not if it sleeps whenever it is looked at. */
static bool await_rest(struct actor *actor)
{
    for (int asleep = 0; asleep < 3;) {
        glance(actor);
        if (has_answered(actor))
            return true;
        char letter = thread_state(actor);
        actor->is_there = letter != STATE_ABSENT && letter != 'Z' && letter != 'X';
        if (!actor->is_there)
            return false;
        asleep = letter == 'S' || letter == 'T' ? asleep + 1 : 0;
    }
    return false;
}

static void ask(struct actor *actor, const char *step)
{
    snprintf(actor->step, sizeof actor->step, "%s", step);
    __atomic_add_fetch(&actor->asked, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &actor->asked, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void put(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(1, text, length);
        CHECK(written > 0 || errno == EINTR);
        text += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
}

static void log_answer(int number)
{
    put(state->actors[number].answer, state->actors[number].length);
}

static void log_instead(int number, const char *step, const char *what)
{
    char line[STEP_BYTES + 64];
    put(line, (size_t)snprintf(line, sizeof line, "%d %s: %s\n", number, step, what));
}

/* Looks after one actor: it handles its signals, or it is seen to have ended, stopped or gone on. */
static void settle_one(int number)
{
    struct actor *actor = &state->actors[number];
    if (!actor->is_there)
        return;
    if (actor->is_busy) {
        if (await_rest(actor)) {
            actor->is_busy = false;
            log_answer(number);
        }
        return;
    }
    if (actor->is_stopped && thread_state(actor) == 'T')
        return;
    if (has_answered(actor))
        ask(actor, "ping");
    await_answer(actor);
}

static void settle(void)
{
    hold_posix_queues();
    // One actor's end may mean a signal for another one.
    for (int round = 0; round < 2; round++)
        for (int number = 1; number < ACTORS; number++)
            settle_one(number);
}

/* A gate like that of check.h, except that it is counted in the state, which outlives an execve(2). Without a
 * harness it may last some time. */
static void wait_at_gate(const char *name)
{
    const struct timespec blink = {0, 500000};
    const char *folder = getenv("VICTIM_MOMENTS");
    char arrived[4096], own[4096];
    const char *pause = getenv("MOMENT_MILLISECONDS");
    if (folder == NULL && pause != NULL)
        usleep((useconds_t)atoi(pause) * 1000);
    if (folder == NULL)
        return;
    state->moments++;
    snprintf(arrived, sizeof arrived, "%s/at-%d-%s", folder, state->moments, name);
    snprintf(own, sizeof own, "%s/open-%d", folder, state->moments);
    CHECK(mknod(arrived, S_IFREG | 0644, 0) == 0 || errno == EEXIST);
    while (access(own, F_OK) != 0)
        nanosleep(&blink, NULL);
}

/* The harness has all processes replaced here. They may have other ids afterwards, so their states are not asked for.
 * */
static void pass_moment(const char *name)
{
    wait_at_gate(name);
    struct actor *self = &state->actors[0];
    self->pid = getpid();
    self->tid = (pid_t)syscall(SYS_gettid);
    for (int number = 1; number < ACTORS; number++) {
        struct actor *actor = &state->actors[number];
        if (!actor->is_there || actor->is_stopped || actor->is_busy)
            continue;
        ask(actor, "ping");
        for (int waited = 0; !has_answered(actor) && waited < 10000; waited++)
            glance(actor);
    }
}

static void direct(int number, const char *step)
{
    struct actor *actor = &state->actors[number];
    if (strncmp(step, "moment ", 7) == 0) {
        pass_moment(step + 7);
    } else if (number == 0) {
        perform(step);
        log_answer(0);
    } else if (!actor->is_there || actor->is_stopped || actor->is_busy) {
        log_instead(number, step, !actor->is_there ? "nobody" : actor->is_stopped ? "stopped" : "busy");
    } else {
        bool may_wait = strncmp(step, "hang ", 5) == 0;
        ask(actor, step);
        bool answered = may_wait ? await_rest(actor) : await_answer(actor);
        if (answered)
            log_answer(number);
        else
            log_instead(number, step, !actor->is_there ? "ended" : actor->is_stopped ? "stopped" : "waits");
        actor->is_busy = !answered && may_wait && actor->is_there;
    }
    settle();
}

/* Returns the next line of the script without its comment, or false at the end. */
static bool next_line(char *line, size_t size)
{
    const char *text = state->script + state->at;
    if (*text == '\0')
        return false;
    size_t length = strcspn(text, "\n");
    state->at += length + (text[length] == '\n');
    size_t kept = length < size ? length : size - 1;
    memcpy(line, text, kept);
    line[kept] = '\0';
    line[strcspn(line, "#")] = '\0';
    for (size_t end = strlen(line); end > 0 && line[end - 1] == ' '; end--)
        line[end - 1] = '\0';
    return true;
}

static void kill_the_rest(void)
{
    for (int number = 1; number < ACTORS; number++)
        if (state->actors[number].is_there && state->actors[number].pid != getpid())
            kill(state->actors[number].pid, SIGKILL);
}

_Noreturn static void follow_script(void)
{
    char line[STEP_BYTES];
    while (next_line(line, sizeof line)) {
        char *step;
        long number = strtol(line, &step, 10);
        if (step == line || number < 0 || number >= ACTORS)
            continue;
        direct((int)number, step + strspn(step, " "));
    }
    kill_the_rest();
    remove_shared_objects();
    put("end\n", 4);
    exit(0);
}

static void map_state(void)
{
    int flags = MAP_SHARED | MAP_FIXED_NOREPLACE;
    void *at = mmap(state, sizeof(struct shared_state), PROT_READ | PROT_WRITE, flags, STATE_FD, 0);
    CHECK(at == (void *)state);
}

static void make_state(const char *script)
{
    int fd = memfd_create("state", 0);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared_state)) == 0);
    CHECK(dup2(fd, STATE_FD) == STATE_FD && close(fd) == 0);
    map_state();
    CHECK(readlink("/proc/self/exe", state->executable, sizeof state->executable - 1) > 0);
    CHECK(getcwd(state->base, sizeof state->base) != NULL);
    size_t length = read_text(script, state->script, sizeof state->script);
    CHECK(length > 0 && length < sizeof state->script - 1);
    for (int number = 0; number < OBJECTS; number++)
        state->segments[number] = state->semaphores[number] = state->queues[number] = -1;
}

/* Runs a command as the leader of a group, and reaps its orphans at once, as a supervisor does. Some systems' init takes
 * its time, and meanwhile others see a process that has ended. */
static int reap_for(char **command)
{
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(setpgid(0, 0) == 0);
        execv(command[0], command);
        _exit(127);
    }
    int status = 0;
    pid_t ended;
    while ((ended = wait(&status)) != child)
        CHECK(ended >= 0 || errno == EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* usage: interpreter SCRIPT, `interpreter --actor NUMBER` after an execve(2) of its own, and `interpreter --reap COMMAND...` */
int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--reap") == 0)
        return reap_for(argv + 2);
    bool goes_on = argc == 3 && strcmp(argv[1], "--actor") == 0;
    CHECK(goes_on || argc == 2);
    int number = goes_on ? atoi(argv[2]) : 0;
    if (goes_on)
        map_state();
    else
        make_state(argv[1]);
    catch_faults();
    take_place(number, number);
    if (number != 0)
        act(number);
    follow_script();
}
