/* Memory that is locked is locked again after a restart, page by page where it was asked for so. Pages of a private
 * file that were not touched show what is written to the file later.
 *
 * expect: survive
 */
#include "mapped.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 64 };

static char *map(void)
{
    char *map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    return map;
}

/* Maps three pages of a file, and locks them without touching them: nothing is mapped after them. */
static char *lock_untouched(int file, int protection)
{
    char *map = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(map != MAP_FAILED && munmap(map + 3 * PAGE, PAGE) == 0);
    map[PAGE] = 'o';
    CHECK(mprotect(map, 3 * PAGE, protection) == 0);
    CHECK(mlock(map, 4 * PAGE) != 0 && errno == ENOMEM);
    return map;
}

int main(void)
{
    char *whole = map(), *on_fault = map(), *free_again = map();
    if (mlock(whole, PAGES * PAGE) != 0 && (errno == ENOMEM || errno == EPERM))
        LACKS("the right to lock memory");
    CHECK(mlock2(on_fault, PAGES * PAGE, MLOCK_ONFAULT) == 0 && mlock(free_again, PAGES * PAGE) == 0);
    CHECK(munlock(free_again, PAGES * PAGE) == 0);
    if (!has_flag(on_fault, " lf"))
        LACKS("a kernel that shows which memory is locked on first use (lf in /proc/self/smaps)");
    int file = open("of-file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && ftruncate(file, 3 * PAGE) == 0);
    char *writable = lock_untouched(file, PROT_READ | PROT_WRITE), *read_only = lock_untouched(file, PROT_READ);
    on_fault[3 * PAGE] = whole[3 * PAGE] = free_again[3 * PAGE] = 'x';
    for (int life = 0; life < 2; life++) {
        unsigned char resident[PAGES];
        moment("locked");
        CHECK(has_flag(whole, " lo") && !has_flag(whole, " lf"));
        CHECK(has_flag(on_fault, " lo") && has_flag(on_fault, " lf"));
        CHECK(!has_flag(free_again, " lo"));
        CHECK(whole[3 * PAGE] == 'x' && on_fault[3 * PAGE] == 'x' && free_again[3 * PAGE] == 'x');
        CHECK(mincore(whole, PAGES * PAGE, resident) == 0);
        for (int i = 0; i < PAGES; i++)
            CHECK(resident[i] & 1);
        char letter = (char)('a' + life);
        CHECK(pwrite(file, &letter, 1, 0) == 1 && writable[0] == letter && read_only[0] == letter);
        CHECK(writable[PAGE] == 'o' && read_only[PAGE] == 'o');
        CHECK(has_flag(writable, " lo") && !has_flag(writable, " lf") && has_flag(read_only, " lo"));
    }
    CHECK(munlockall() == 0 && !has_flag(whole, " lo"));
    puts("locked");
    return 0;
}
