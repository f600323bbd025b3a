/* A program in a memfd can be executed while the memfd is open, as before; one that has been opened for writing once more
 * cannot.
 *
 * expect: survive
 */
#include "family.h"

extern char **environ;

/* What a child says that tries. */
static int try(int memory)
{
    pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0) {
        char *arguments[] = {"copy", "run", NULL};
        syscall(SYS_execveat, memory, "", arguments, environ, AT_EMPTY_PATH);
        _exit(errno);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(int count, char **arguments)
{
    char room[4096], path[64];
    ssize_t bytes;
    if (count > 1 && strcmp(arguments[1], "run") == 0)
        return 7;
    int own = open("/proc/self/exe", O_RDONLY), memory = memfd_create("copy", MFD_ALLOW_SEALING);
    CHECK(own >= 0 && memory >= 0);
    while ((bytes = read(own, room, sizeof room)) > 0)
        CHECK(write(memory, room, (size_t)bytes) == bytes);
    /* The descriptor of `own` stays, so that the memfd has the lowest of its own. */
    CHECK(bytes == 0 && fcntl(memory, F_SETFL, O_APPEND) == 0);
    CHECK(try(memory) == 7);
    moment("written");
    CHECK(try(memory) == 7 && fcntl(memory, F_GETFL) & O_APPEND);
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    int again = open(path, O_RDWR);
    CHECK(again >= 0 && try(memory) == ETXTBSY);
    moment("opened again");
    CHECK(try(memory) == ETXTBSY && close(again) == 0 && try(memory) == 7);
    puts("executed");
    return 0;
}
