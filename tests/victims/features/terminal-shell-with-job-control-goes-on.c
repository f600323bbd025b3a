/* A shell with job control on a pseudo-terminal of the program's own goes on: a job that was stopped by a key is brought
 * forward and ends, and the next one runs in front.
 *
 * expect: survive
 */
#include "terminal.h"

/* Reads on until `text` has been shown. */
static void await_text(int master, const char *text)
{
    static char shown[65536];
    static size_t length;
    char *at;
    while ((at = memmem(shown, length, text, strlen(text))) == NULL) {
        ssize_t got = read(master, shown + length, sizeof shown - length);
        CHECK(got > 0);
        length += got;
    }
    length -= at + strlen(text) - shown;
    memmove(shown, at + strlen(text), length);
}

int main(void)
{
    int master;
    pid_t shell = forkpty(&master, NULL, NULL, NULL);
    CHECK(shell >= 0);
    if (shell == 0) {
        setenv("PS1", "$ ", 1);
        setenv("TERM", "dumb", 1);
        execlp("bash", "bash", "--norc", "--noprofile", "--noediting", "-i", (char *)NULL);
        LACKS("bash");
    }
    await_text(master, "$ ");
    say(master, "word=kept; sh -c 'echo go\"\"ing; read x; echo e\"\"nd $x'\n");
    await_text(master, "going");
    moment("a job in front");
    say(master, "\x1a");
    await_text(master, "Stopped");
    await_text(master, "$ ");
    moment("a job stopped");
    say(master, "fg\n");
    await_text(master, "sh -c");
    say(master, "well\n");
    await_text(master, "end well");
    await_text(master, "$ ");
    say(master, "echo $wo");
    moment("half a line");
    say(master, "rd; exit 7\n");
    await_text(master, "kept");
    reap(shell, 7);
    puts("job control kept");
    return 0;
}
