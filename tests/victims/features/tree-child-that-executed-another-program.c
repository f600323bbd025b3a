/* Children that have executed other programs go on with them.
 *
 * expect: survive
 */
#include "family.h"

static pid_t start(struct line *line, char *const arguments[])
{
    pid_t child;
    open_line(line);
    CHECK((child = fork()) >= 0);
    if (child == 0) {
        CHECK(dup2(line->down[0], 0) == 0 && dup2(line->up[1], 1) == 1);
        CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
        execvp(arguments[0], arguments);
        _exit(127);
    }
    be_parent(line);
    CHECK(fcntl(line->down[1], F_SETFD, FD_CLOEXEC) == 0);
    return child;
}

int main(void)
{
    struct line echo, adder;
    char text[64];
    pid_t cat = start(&echo, (char *[]){"cat", NULL});
    char *script = "n=0; while read word; do n=$((n + word)); echo $n; done; exit 5";
    pid_t shell = start(&adder, (char *[]){"sh", "-c", script, NULL});
    for (int round = 1; round <= 3; round++) {
        CHECK(write(echo.down[1], "hello\n", 6) == 6);
        CHECK(write(adder.down[1], "7\n", 2) == 2);
        moment("asked");
        CHECK(read(echo.up[0], text, sizeof text) == 6 && memcmp(text, "hello\n", 6) == 0);
        ssize_t length = read(adder.up[0], text, sizeof text);
        CHECK(length >= 2 && atoi(text) == 7 * round);
        moment("answered");
    }
    CHECK(close(echo.down[1]) == 0 && close(adder.down[1]) == 0);
    reap(cat, 0);
    reap(shell, 5);
    puts("other programs");
    return 0;
}
