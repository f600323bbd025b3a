/* Holds as many megabytes of random words as its first argument says, and goes through them in order, as many megabytes a
 * second as its second argument says, for as many seconds as its third; once a file named `gate` is there, as fast as it
 * can. The result does not depend on how long it took. */
#include "check.h"
#include <sys/mman.h>
#include <time.h>

enum { PAGE = 4096, TURNS = 100 };

int main(int argc, char **argv)
{
    const struct timespec a_turn = {0, 1000000000 / TURNS};
    CHECK(argc == 4);
    size_t length = strtoul(argv[1], NULL, 10) << 20, pace = (strtoul(argv[2], NULL, 10) << 20) / TURNS;
    unsigned long turns = strtoul(argv[3], NULL, 10) * TURNS;
    uint64_t numbers = 1, sum = FOLD_START;
    uint64_t *words = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(words != MAP_FAILED);
    for (size_t word = 0; word < length / 8; word++)
        words[word] = next_number(&numbers);
    for (size_t turn = 0, at = 0; turn < turns; turn++) {
        for (size_t end = at + pace; at < end; at += PAGE) {
            uint64_t *page = words + at % length / 8;
            *page = fold(*page, &sum, sizeof sum);
            sum ^= *page;
        }
        if (access("gate", F_OK) != 0)
            CHECK(nanosleep(&a_turn, NULL) == 0);
    }
    sum = fold(sum, words, length);
    printf("pacer: %016llx\n", (unsigned long long)sum);
    return 0;
}
