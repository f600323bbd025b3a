/* How a step is read and answered, and the small things that all operations use: slots, paths, patterns, and accesses
 * to memory that may fail. */
#include "interpreter.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/syscall.h>

__thread int me;

void say(const char *format, ...)
{
    struct actor *self = &state->actors[me];
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof self->answer - self->length;
    int length = vsnprintf(self->answer + self->length, room, format, arguments);
    va_end(arguments);
    self->length += (size_t)length < room ? (size_t)length : room - 1;
}

static const struct operation *find(const char *name, size_t length)
{
    static const struct operation *const tables[] = {
        actor_operations,  memory_operations, file_operations,    lock_operations,   channel_operations,
        event_operations,  socket_operations, connection_operations, terminal_operations, signal_operations,
        timer_operations, process_operations, shared_operations, observations,
    };
    for (size_t table = 0; table < sizeof tables / sizeof *tables; table++)
        for (const struct operation *each = tables[table]; each->name != NULL; each++)
            if (strlen(each->name) == length && memcmp(each->name, name, length) == 0)
                return each;
    return NULL;
}

void perform(const char *step)
{
    struct actor *self = &state->actors[me];
    self->pid = getpid();
    self->tid = (pid_t)syscall(SYS_gettid);
    self->length = 0;
    long arguments[ARGUMENTS] = {0};
    size_t length = strcspn(step, " ");
    const struct operation *operation = find(step, length);
    char *rest = (char *)step + length;
    for (int place = 0; place < ARGUMENTS && *rest != '\0'; place++)
        arguments[place] = strtol(rest, &rest, 0);
    say("%d %s:", me, step);
    if (operation == NULL) {
        say(" unknown\n");
        return;
    }
    errno = 0;
    long result = operation->perform(arguments);
    if (result < 0)
        say(" = %s\n", errno != 0 ? strerrorname_np(errno) : "failed");
    else
        say(" = %ld\n", result);
}

size_t read_text(const char *path, char *text, size_t size)
{
    size_t length = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        text[0] = '\0';
        return 0;
    }
    for (ssize_t got; length < size - 1 && (got = read(fd, text + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    close(fd);
    text[length] = '\0';
    return length;
}

int place(int fd, long slot)
{
    if (fd < 0)
        return -1;
    int flags = fcntl(fd, F_GETFD);
    int placed = dup3(fd, fd_of(slot), flags & FD_CLOEXEC ? O_CLOEXEC : 0);
    close(fd);
    return placed < 0 ? -1 : 0;
}

void make_pattern(unsigned char *bytes, size_t length, long seed)
{
    uint64_t random = (uint64_t)seed;
    for (size_t at = 0; at < length; at += 8) {
        uint64_t number = next_number(&random);
        memcpy(bytes + at, &number, length - at < 8 ? length - at : 8);
    }
}

static __thread sigjmp_buf *way_out;

static void on_fault(int number)
{
    if (way_out != NULL)
        siglongjmp(*way_out, number);
    signal(number, SIG_DFL);
}

void catch_faults(void)
{
    struct sigaction action = {.sa_handler = on_fault};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
}

int guarded(void (*body)(void *), void *argument)
{
    sigjmp_buf here;
    int number = sigsetjmp(here, 1);
    if (number == 0) {
        way_out = &here;
        body(argument);
    }
    way_out = NULL;
    return number;
}

const char *path_of(long number)
{
    static __thread char path[4200];
    static const char kinds[] = "fdfpsl";
    long kind = number / 10 % 10, which = number % 10;
    // From 100 on, the path is relative to the working directory.
    const char *base = number < 100 ? state->base : ".";
    if (kind >= 6)
        snprintf(path, sizeof path, "%s", base);
    else if (kind == 2)
        snprintf(path, sizeof path, "%s/d%ld/f%ld", base, which % 2, which);
    else
        snprintf(path, sizeof path, "%s/%c%ld", base, kinds[kind], which);
    return path;
}

const char *kind_of(int fd)
{
    static __thread char kind[4200];
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "/proc/thread-self/fd/%d", fd);
    ssize_t length = readlink(path, kind, sizeof kind - 1);
    kind[length > 0 ? length : 0] = '\0';
    if (strncmp(kind, "pipe:", 5) == 0 || strncmp(kind, "socket:", 7) == 0)
        *strchr(kind, '[') = '\0';
    // A named pipe without a name comes back as any other.
    if (fstat(fd, &found) == 0 && S_ISFIFO(found.st_mode) && strstr(kind, " (deleted)") != NULL)
        return "pipe:";
    if (strncmp(kind, "/dev/pts/", 9) == 0)
        return "a terminal";
    if (strncmp(kind, "/standfast-differential-", 24) == 0)
        return "a queue";
    // A restart opens a deleted file under another name, if it has one (docs/files.md).
    if (strncmp(kind, "/memfd:", 7) != 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode))
        return "a file";
    size_t folder = strlen(state->base);
    return strncmp(kind, state->base, folder) == 0 ? kind + folder : kind;
}

bool is_structured(int fd)
{
    const char *kind = kind_of(fd);
    return strcmp(kind, "anon_inode:[signalfd]") == 0 || strcmp(kind, "anon_inode:inotify") == 0
           || strcmp(kind, "a queue") == 0;
}

int never_wait(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && !(flags & O_NONBLOCK))
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    return flags;
}

void wait_again(int fd, int flags)
{
    int error = errno;
    if (flags >= 0 && !(flags & O_NONBLOCK))
        fcntl(fd, F_SETFL, flags);
    errno = error;
}

void say_bytes(const void *bytes, ssize_t length)
{
    if (length > 0)
        say(" [%zd bytes %016lx]", length, (unsigned long)fold(FOLD_START, bytes, (size_t)length));
}
