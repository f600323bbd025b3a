/* What a program has told the kernel about itself as a whole holds after a restart: that orphans come to it, that it wants
 * no huge pages, what signal the end of its parent gives, its out-of-memory score and what a core dump holds.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

static void put(const char *path, const char *text)
{
    int file = open(path, O_WRONLY);
    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text) && close(file) == 0);
}

static void get(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY);
    ssize_t got = file < 0 ? -1 : read(file, text, size - 1);
    CHECK(got > 0 && close(file) == 0);
    text[got - 1] = 0;
}

int main(void)
{
    char text[64];
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0);
    put("/proc/self/oom_score_adj", "321");
    put("/proc/self/coredump_filter", "0x21");
    for (int life = 0; life < 2; life++) {
        int subreaper = 0, signal = 0;
        moment("switched");
        CHECK(prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper == 1);
        CHECK(prctl(PR_GET_PDEATHSIG, &signal) == 0 && signal == SIGUSR1);
        CHECK(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
        get("/proc/self/oom_score_adj", text, sizeof text);
        CHECK(strcmp(text, "321") == 0);
        get("/proc/self/coredump_filter", text, sizeof text);
        CHECK(strtol(text, NULL, 16) == 0x21);
    }
    puts("switched");
    return 0;
}
