/* The time of modification of an open file is what it was: of a log that is cut back, of a small file that is put back, of a
 * file that has been deleted, and of a file in memory.
 *
 * expect: survive
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { FILES = 5 };

int main(void)
{
    int files[FILES];
    struct stat before[FILES], now;
    files[0] = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    files[1] = open("small", O_RDWR | O_CREAT, 0644);
    files[2] = open("deleted", O_RDWR | O_CREAT, 0600);
    files[3] = memfd_create("memory", 0);
    files[4] = open("mapped", O_RDWR | O_CREAT, 0600);
    CHECK(unlink("deleted") == 0 && ftruncate(files[4], 4096) == 0);
    char *shown = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, files[4], 0);
    CHECK(shown != MAP_FAILED);
    for (int life = 0; life < 2; life++) {
        for (int i = 0; i < FILES; i++) {
            struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {1000000 + 1000 * life + i, 500 + i}};
            CHECK(files[i] >= 0 && write(files[i], "a line\n", 7) == 7);
            shown[i] = (char)('a' + life);
            CHECK(msync(shown, 4096, MS_SYNC) == 0);
            CHECK(futimens(files[i], times) == 0 && fstat(files[i], &before[i]) == 0);
        }
        moment("written");
        for (int i = 0; i < FILES; i++) {
            CHECK(fstat(files[i], &now) == 0 && now.st_size == before[i].st_size);
            CHECK(now.st_mtim.tv_sec == before[i].st_mtim.tv_sec && now.st_mtim.tv_nsec == before[i].st_mtim.tv_nsec);
        }
        /* What a killed life leaves behind. */
        CHECK(write(files[0], "more", 4) == 4 && pwrite(files[1], "A", 1, 0) == 1);
        shown[0] = 'Z';
        moment("changed");
    }
    puts("told in time");
    return 0;
}
