/* Memory that parent and child have had in common since the fork stays each one's own: what one writes the other does not
 * see, before and after a restart.
 *
 * expect: survive
 */
#include "family.h"

enum { WORDS = 1 << 20 };
static uint64_t data[1024] = {1, 2, 3};

static uint64_t sum_of(const uint64_t *words)
{
    return fold(fold(FOLD_START, words, WORDS * sizeof *words), data, sizeof data);
}

static void change(uint64_t *words, uint64_t seed)
{
    for (int i = 0; i < 100; i++)
        words[next_number(&seed) % WORDS] = next_number(&seed);
    data[next_number(&seed) % 1024]++;
}

int main(void)
{
    struct line line;
    uint64_t *words = mmap(NULL, WORDS * sizeof *words, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t seed = 5, sums[2];
    CHECK(words != MAP_FAILED);
    for (int i = 0; i < WORDS; i += 3)
        words[i] = next_number(&seed);
    open_line(&line);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        be_child(&line);
    else
        be_parent(&line);
    for (int round = 0; round < 3; round++) {
        change(words, 100 * round + (child == 0));
        sums[0] = sum_of(words);
        if (child == 0) {
            put(line.up[1], (int)sums[0]);
            CHECK(get(line.down[0]) == round);
        } else {
            int theirs = get(line.up[0]);
            CHECK(theirs != (int)sums[0]);
            moment("apart");
            put(line.down[1], round);
            printf("%d %d\n", (int)sums[0], theirs);
        }
        CHECK(sum_of(words) == sums[0]);
    }
    if (child == 0)
        _exit(0);
    reap(child, 0);
    return 0;
}
