/* Holds as many megabytes of random words as its first argument says, on small pages or, with a second argument `huge`,
 * on huge ones. Waits for a file named `gate`, says when it saw it (nanoseconds since 1970), and checks every word. */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

int main(int argc, char **argv)
{
    const struct timespec a_while = {0, 100000};
    struct timespec now;
    CHECK(argc >= 2);
    size_t length = strtoul(argv[1], NULL, 10) << 20;
    uint64_t *words = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(words != MAP_FAILED);
    CHECK(madvise(words, length, argc > 2 && strcmp(argv[2], "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0);
    uint64_t random = 1;
    for (size_t i = 0; i < length / sizeof *words; i++)
        words[i] = next_number(&random);
    int told = open("waiting", O_WRONLY | O_CREAT, 0644);
    CHECK(told >= 0 && close(told) == 0);
    while (access("gate", F_OK) != 0)
        CHECK(nanosleep(&a_while, NULL) == 0);
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    random = 1;
    for (size_t i = 0; i < length / sizeof *words; i++)
        CHECK(words[i] == next_number(&random));
    printf("%ld\n", now.tv_sec * 1000000000 + now.tv_nsec);
    return 0;
}
