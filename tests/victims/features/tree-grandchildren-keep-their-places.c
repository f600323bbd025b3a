/* Every process of four generations finds its parent and its children as they were.
 *
 * expect: survive
 */
#include "family.h"

static int descend(int depth, int from, int to)
{
    pid_t own = getpid(), parent = getppid(), child;
    struct line line;
    int word;
    if (depth == 0) {
        while (read(from, &word, sizeof word) == sizeof word) {
            CHECK(getpid() == own && getppid() == parent);
            put(to, word + 1);
        }
        return 0;
    }
    open_line(&line);
    CHECK((child = fork()) >= 0);
    if (child == 0) {
        be_child(&line);
        CHECK(close(from) == 0 && close(to) == 0);
        _exit(descend(depth - 1, line.down[0], line.up[1]));
    }
    be_parent(&line);
    while (read(from, &word, sizeof word) == sizeof word) {
        CHECK(getpid() == own && getppid() == parent);
        put(line.down[1], word + depth);
        put(to, get(line.up[0]));
    }
    CHECK(close(line.down[1]) == 0);
    reap(child, depth - 1);
    return depth;
}

int main(void)
{
    struct line line;
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        be_child(&line);
        _exit(descend(3, line.down[0], line.up[1]));
    }
    be_parent(&line);
    for (int round = 0; round < 3; round++) {
        put(line.down[1], round);
        moment("asked");
        CHECK(get(line.up[0]) == round + 3 + 2 + 1 + 1);
    }
    CHECK(close(line.down[1]) == 0);
    reap(child, 3);
    puts("four generations");
    return 0;
}
