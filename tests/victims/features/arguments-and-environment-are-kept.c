/* Arguments and environment are the same, in memory and in /proc, also where the program has written over them.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>

extern char **environ;

static size_t contents(const char *path, char *into, size_t room)
{
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    ssize_t count = read(file, into, room);
    CHECK(count >= 0 && close(file) == 0);
    return (size_t)count;
}

int main(int argc, char **argv)
{
    static char before[4][65536], after[65536];
    static const char *const paths[4] = {"/proc/self/cmdline", "/proc/self/environ", "/proc/self/auxv", "/proc/self/comm"};
    size_t counts[4];
    CHECK(argc == 1 && setenv("ADDED", "by the program", 1) == 0);
    argv[0][0] = '#'; /* as a program does that shows its state in ps */
    for (int i = 0; i < 4; i++)
        counts[i] = contents(paths[i], before[i], sizeof before[i]);
    CHECK(counts[0] > 1 && before[0][0] == '#');
    moment("written over");
    for (int i = 0; i < 4; i++)
        CHECK(contents(paths[i], after, sizeof after) == counts[i] && memcmp(after, before[i], counts[i]) == 0);
    CHECK(strcmp(getenv("ADDED"), "by the program") == 0 && argv[0][0] == '#');
    for (char **entry = environ; *entry != NULL; entry++)
        CHECK(strchr(*entry, '=') != NULL);
    puts("the same words");
    return 0;
}
