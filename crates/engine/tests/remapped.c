/* Does one thing to its memory after the other, in a directory: order N stands in the file `order-N`, and when it has been
 * obeyed there is `done-N`, in which stands "lacks" where the kernel lacks what it takes. All of it happens at the address that
 * stands in `done-0`.
 *
 * usage: remapped DIRECTORY
 *
 *   pool       two huge pages of the system's pool, filled
 *   discard    the first of them is discarded and read
 *   droppable  a droppable mapping, filled
 *   ordinary   ordinary memory in its place, filled
 *   wiped      ordinary memory in its place, which a child gets empty
 *   kept       ordinary memory in its place, which a child does not get
 *   none       nothing in its place
 *   guarded    a file, shared, opened for writing and closed, that is only read
 *   read       all of it is read
 *   other      the file is written to in another way
 *   slip       it is made writable, written to, and made read-only again
 *   filled     two areas as large as huge pages, on small ones, filled
 *   moved      the second takes the place of the first
 *   zeros      the first is discarded and read
 *   merged     its first page is written, and the kernel (KSM) puts an equal page of its own there, for it alone */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

enum { HUGE_PAGE = 2 << 20, BYTES = 4 << 12 };

static unsigned char *place;

static long merged_pages(void)
{
    char text[32] = "";
    FILE *file = fopen("/sys/kernel/mm/ksm/pages_sharing", "r");
    if (file != NULL && (fgets(text, sizeof text, file) == NULL || fclose(file) != 0))
        return 0;
    return strtol(text, NULL, 10);
}

/* Has KSM merge the first two pages, and leaves the merged page to the first. */
static int merge(void)
{
    const struct timespec blink = {0, 10000000};
    long before = merged_pages();
    memset(place, 'm', 2 << 12);
    if (madvise(place, 2 << 12, MADV_MERGEABLE) != 0)
        return 0;
    for (int tries = 0; merged_pages() <= before; tries++) {
        if (tries > 500)
            return 0;
        nanosleep(&blink, NULL);
    }
    place[1 << 12] = 'x';
    return 1;
}

static int map(int flags, size_t bytes)
{
    munmap(place, 2 * HUGE_PAGE);
    return mmap(place, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == place;
}

static int obey(const char *line)
{
    if (strcmp(line, "pool") == 0) {
        if (!map(MAP_PRIVATE | MAP_HUGETLB | 21 << MAP_HUGE_SHIFT, 2 * HUGE_PAGE))
            return 0;
        memset(place, 'p', 2 * HUGE_PAGE);
    } else if (strcmp(line, "discard") == 0) {
        return madvise(place, HUGE_PAGE, MADV_DONTNEED) == 0 && *(volatile unsigned char *)place == 0;
    } else if (strcmp(line, "droppable") == 0) {
        if (!map(MAP_DROPPABLE, BYTES))
            return 0;
        memset(place, 'd', BYTES);
    } else if (strcmp(line, "guarded") == 0) {
        int file = open("state", O_RDWR | O_CREAT, 0600);
        munmap(place, 2 * HUGE_PAGE);
        return ftruncate(file, HUGE_PAGE) == 0 &&
               mmap(place, HUGE_PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == place && close(file) == 0;
    } else if (strcmp(line, "read") == 0) {
        int sum = 0;
        for (int i = 0; i < HUGE_PAGE; i += 64)
            sum += ((volatile unsigned char *)place)[i];
        return sum >= 0;
    } else if (strcmp(line, "other") == 0) {
        int file = open("state", O_RDWR);
        return pwrite(file, "other", 5, 8 << 12) == 5 && close(file) == 0;
    } else if (strcmp(line, "slip") == 0) {
        if (mprotect(place, HUGE_PAGE, PROT_READ | PROT_WRITE) != 0)
            return 0;
        place[5 << 12] = 's';
        return mprotect(place, HUGE_PAGE, PROT_READ) == 0;
    } else if (strcmp(line, "filled") == 0) {
        if (!map(MAP_PRIVATE, 2 * HUGE_PAGE))
            return 0;
        madvise(place, 2 * HUGE_PAGE, MADV_NOHUGEPAGE);
        memset(place, 'f', HUGE_PAGE);
        memset(place + HUGE_PAGE, 'm', HUGE_PAGE);
    } else if (strcmp(line, "moved") == 0) {
        return mremap(place + HUGE_PAGE, HUGE_PAGE, HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place;
    } else if (strcmp(line, "zeros") == 0) {
        return madvise(place, BYTES, MADV_DONTNEED) == 0 && *(volatile unsigned char *)place == 0;
    } else if (strcmp(line, "merged") == 0) {
        return merge();
    } else if (strcmp(line, "none") == 0) {
        return munmap(place, 2 * HUGE_PAGE) == 0;
    } else {
        int advice = strcmp(line, "wiped") == 0 ? MADV_WIPEONFORK : MADV_DONTFORK;
        if (!map(MAP_PRIVATE, BYTES) || (strcmp(line, "ordinary") != 0 && madvise(place, BYTES, advice) != 0))
            return 0;
        memset(place, line[0], BYTES);
    }
    return 1;
}

static void answer(int number, const char *what)
{
    char name[32];
    snprintf(name, sizeof name, "done-%d", number);
    FILE *file = fopen("answer", "w");
    if (file == NULL || fputs(what, file) < 0 || fclose(file) != 0 || rename("answer", name) != 0)
        _exit(3);
}

int main(int argc, char **argv)
{
    char text[64], name[32];
    const struct timespec blink = {0, 500000};
    unsigned char *at = mmap(NULL, 3 * HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (argc != 2 || at == MAP_FAILED || chdir(argv[1]) != 0)
        return 2;
    place = (unsigned char *)(((unsigned long)at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    snprintf(text, sizeof text, "%lx", (unsigned long)place);
    answer(0, text);
    for (int number = 1;; number++) {
        FILE *file;
        snprintf(name, sizeof name, "order-%d", number);
        while ((file = fopen(name, "r")) == NULL)
            nanosleep(&blink, NULL);
        if (fgets(text, sizeof text, file) == NULL || fclose(file) != 0)
            return 4;
        answer(number, obey(text) ? "done" : "lacks");
    }
}
