/* Files of /proc about parents, children and the dead not yet buried, held open by several processes, tell of them in the new life,
 * and those who shared an offset share it still.
 *
 * expect: survive
 */
#include "family.h"
#include "proc_files.h"

/* What a child does when it is told so. */
struct orders {
    volatile int read, done, go;
};

static int of_process(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return opened(path, O_RDONLY);
}

int main(void)
{
    char bytes[5];
    struct orders *orders = share(sizeof *orders);
    int of_parent = opened("/proc/self/status", O_RDONLY);
    pid_t dead = fork(), parent = getpid();
    CHECK(dead >= 0);
    if (dead == 0)
        _exit(3);
    await_state(dead, 'Z');
    int of_dead = of_process(dead, "stat");
    pid_t sleeper = fork();
    CHECK(sleeper >= 0);
    if (sleeper == 0)
        for (;;)
            pause();
    int of_sleeper = of_process(sleeper, "status"), memory = of_process(sleeper, "mem");
    pid_t reader = fork();
    CHECK(reader >= 0);
    if (reader == 0) {
        for (int life = 1; life <= 3; life++) {
            while (orders->go != life)
                usleep(200);
            CHECK(number_behind(text_of(of_parent), "Pid:") == parent);
            CHECK(number_behind(text_of(of_sleeper), "Pid:") == sleeper);
            CHECK(strstr(text_of(of_dead), ") Z ") != NULL && atol(text_of(of_dead)) == dead);
            CHECK(read(of_parent, bytes, 5) == 5);
            orders->done = life;
        }
        _exit(4);
    }
    static long word = 77;
    for (int life = 1; life <= 3; life++) {
        long seen = 0;
        orders->go = life;
        while (orders->done != life)
            usleep(200);
        CHECK(lseek(of_parent, 0, SEEK_CUR) == 5 * life);
        CHECK(number_behind(text_of(of_parent), "Pid:") == parent && number_behind(text_of(of_sleeper), "PPid:") == parent);
        CHECK(strstr(text_of(of_dead), ") Z ") != NULL);
        CHECK(pread(memory, &seen, sizeof seen, (off_t)(uintptr_t)&word) == sizeof seen && seen == 77);
        word++;
        if (life < 3)
            moment("told");
    }
    CHECK(kill(sleeper, SIGKILL) == 0);
    reap_killed(sleeper, SIGKILL);
    reap(reader, 4);
    reap(dead, 3);
    CHECK(pread(of_dead, bytes, 5, 0) == -1 && errno == ESRCH);
    puts("told of the living and the dead");
    return 0;
}
