/* Standing advice on memory is the same after a restart.
 *
 * expect: survive
 */
#include "mapped.h"
#include <sys/mman.h>

enum { BYTES = 4 << 20, KINDS = 8 };

int main(void)
{
    static const struct {
        int advice;
        const char *flag;
    } kinds[KINDS] = {
        {MADV_DONTFORK, " dc"}, {MADV_WIPEONFORK, " wf"},   {MADV_DONTDUMP, " dd"},   {MADV_HUGEPAGE, " hg"},
        {MADV_NOHUGEPAGE, " nh"}, {MADV_MERGEABLE, " mg"}, {MADV_SEQUENTIAL, " sr"}, {MADV_RANDOM, " rr"},
    };
    char *maps[KINDS];
    int given[KINDS];
    for (int i = 0; i < KINDS; i++) {
        maps[i] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(maps[i] != MAP_FAILED);
        given[i] = madvise(maps[i], BYTES, kinds[i].advice) == 0;
        CHECK(given[i] || errno == EINVAL); /* a kernel without huge pages, or without merging */
        maps[i][i * 4096] = (char)(i + 1);
    }
    for (int life = 0; life < 2; life++) {
        moment("advised");
        for (int i = 0; i < KINDS; i++) {
            CHECK(maps[i][i * 4096] == i + 1 && maps[i][BYTES - 1] == 0);
            for (int j = 0; j < KINDS; j++)
                if (given[j])
                    CHECK(has_flag(maps[i], kinds[j].flag) == (i == j));
        }
    }
    puts("advised");
    return 0;
}
