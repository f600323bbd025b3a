/* A session keeps its controlling terminal, and the process group in its foreground: keys reach that one, a changed
 * window is told to it, /dev/tty leads there; another group may be brought forward later. The kernel also accepts the id of
 * a process that leads no group.
 *
 * expect: survive
 */
#include "terminal.h"

static volatile sig_atomic_t interrupted, resized;

static void note(int signal)
{
    if (signal == SIGINT)
        interrupted++;
    else
        resized++;
}

static void catch_keys(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGINT, &action, NULL) == 0 && sigaction(SIGWINCH, &action, NULL) == 0);
}

/* In the foreground: tells what it has got, on demand. */
static void front(struct line *line)
{
    for (int wanted; read(line->down[0], &wanted, sizeof wanted) == sizeof wanted;) {
        while (interrupted + resized < wanted)
            usleep(200);
        CHECK(tcgetpgrp(0) == getpgrp());
        put(line->up[1], interrupted * 100 + resized);
    }
    _exit(0);
}

/* The session's leader: its child is in front until it is told to come forward itself. */
static void lead(struct line *to_front, struct line *line)
{
    be_child(line);
    int own = open("/dev/tty", O_RDWR | O_CLOEXEC);
    CHECK(own >= 0 && getsid(0) == getpid());
    signal(SIGTTOU, SIG_IGN);
    catch_keys();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct line both = {{to_front->down[0], -1}, {-1, to_front->up[1]}};
        CHECK(close(to_front->down[1]) == 0);
        while (tcgetpgrp(0) != getpgrp())
            usleep(200);
        front(&both);
    }
    CHECK(close(to_front->down[0]) == 0 && close(to_front->down[1]) == 0);
    CHECK(setpgid(child, child) == 0 && tcsetpgrp(own, child) == 0);
    put(line->up[1], child);
    pid_t follower = 0;
    for (int word; read(line->down[0], &word, sizeof word) == sizeof word;) {
        if (word == 3) {
            follower = fork();
            if (follower == 0)
                await_silence(line->down[0]), _exit(0);
            CHECK(follower > 0 && tcsetpgrp(own, follower) == 0);
            put(line->up[1], follower);
            continue;
        }
        CHECK(tcgetpgrp(own) == (word == 2 ? getpgrp() : child) && tcgetsid(own) == getpid());
        if (word == 1)
            CHECK(tcsetpgrp(own, getpgrp()) == 0);
        say(own, "led");
        put(line->up[1], word);
    }
    reap(child, 0);
    reap(follower, 0);
    _exit(0);
}

int main(void)
{
    struct line to_front, line;
    int master;
    open_line(&to_front);
    open_line(&line);
    catch_keys();
    pid_t leader = forkpty(&master, NULL, NULL, NULL);
    CHECK(leader >= 0);
    if (leader == 0)
        lead(&to_front, &line);
    be_parent(&to_front);
    be_parent(&line);
    int child = get(line.up[0]);
    for (int round = 1; round <= 2; round++) {
        moment("in front");
        CHECK(tcgetpgrp(master) == child && tcgetsid(master) == leader);
        struct winsize size = {10 + round, 20, 0, 0};
        say(master, "\x03");
        CHECK(ioctl(master, TIOCSWINSZ, &size) == 0);
        put(to_front.down[1], 2 * round);
        CHECK(get(to_front.up[0]) == round * 101);
        hear_all(master, "^C");
        put(line.down[1], 0);
        CHECK(get(line.up[0]) == 0);
        hear_all(master, "led");
    }
    put(line.down[1], 1);
    CHECK(get(line.up[0]) == 1 && tcgetpgrp(master) == leader);
    hear_all(master, "led");
    moment("the leader in front");
    CHECK(tcgetpgrp(master) == leader && interrupted == 0 && resized == 0);
    put(line.down[1], 2);
    CHECK(get(line.up[0]) == 2);
    put(line.down[1], 3);
    int follower = get(line.up[0]);
    moment("a follower in front");
    CHECK(tcgetpgrp(master) == follower);
    CHECK(close(to_front.down[1]) == 0 && close(line.down[1]) == 0);
    reap(leader, 0);
    puts("controlled");
    return 0;
}
