/* The least that a restart must do: fills fresh memory from a file, on small or huge pages, and prints the nanoseconds.
 * Arguments: the file, `small` or `huge`. */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

int main(int argc, char **argv)
{
    struct timespec begin, end;
    struct stat about;
    CHECK(argc == 3);
    int fd = open(argv[1], O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &about) == 0);
    size_t length = (size_t)about.st_size;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &begin) == 0);
    char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(madvise(memory, length, strcmp(argv[2], "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0);
    for (size_t at = 0; at < length;) {
        ssize_t got = read(fd, memory + at, length - at < 1 << 20 ? length - at : 1 << 20);
        CHECK(got > 0);
        at += (size_t)got;
    }
    CHECK(clock_gettime(CLOCK_MONOTONIC, &end) == 0);
    printf("%ld\n", (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec);
    return 0;
}
