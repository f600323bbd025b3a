/* The audit login id that a program has set stays, with its threads and children.
 *
 * expect: survive
 */
#include "family.h"

static unsigned long login(const char *of)
{
    unsigned long id;
    FILE *file = fopen(of, "r");
    CHECK(file != NULL && fscanf(file, "%lu", &id) == 1 && fclose(file) == 0);
    return id;
}

int main(void)
{
    struct line line;
    if (access("/proc/self/loginuid", F_OK) != 0)
        LACKS("audit login ids");
    if (login("/proc/self/loginuid") != UINT32_MAX)
        LACKS("an audit login id that has not been set yet");
    FILE *file = fopen("/proc/self/loginuid", "w");
    CHECK(file != NULL && fprintf(file, "%u", getuid()) > 0);
    if (fclose(file) != 0)
        LACKS("audit login ids that can be set");
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        while (get(line.down[0]))
            put(line.up[1], login("/proc/self/loginuid") == getuid());
        _exit(0);
    }
    be_parent(&line);
    moment("set");
    CHECK(login("/proc/self/loginuid") == getuid());
    put(line.down[1], 1);
    CHECK(get(line.up[0]) == 1);
    put(line.down[1], 0);
    reap(child, 0);
    puts("logged in");
    return 0;
}
