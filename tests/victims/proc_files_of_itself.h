/* The program of two victims: whatever ids it has, the files that it holds tell of them. */
#include "proc_files.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { STATUS, STAT, MAPS, MEMORY, ADJUSTMENT, NAME, AUXILIARY, CHILDREN, DIRECTORY, NETWORK, FILES };
static int files[FILES];
static int of_thread, by_thread, again;
static volatile int has_opened, goes, has_read;

static pid_t own_tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

/* The second thread opens what is about itself. */
static void *thread(void *unused)
{
    char path[64];
    of_thread = opened("/proc/thread-self/stat", O_RDONLY);
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", own_tid());
    by_thread = opened(path, O_RDWR | O_CLOEXEC);
    CHECK(prctl(PR_SET_NAME, "second") == 0);
    has_opened = 1;
    await(&goes);
    CHECK(atol(text_of(of_thread)) == own_tid());
    CHECK(strcmp(text_of(by_thread), "second\n") == 0 && write(by_thread, "other", 5) == 5);
    char name[16];
    CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "other") == 0);
    has_read = 1;
    return unused;
}

/* Whether `maps` has the address as the first of a mapping. */
static int maps_has(const void *address)
{
    char line[32];
    snprintf(line, sizeof line, "\n%lx-", (unsigned long)address);
    return strstr(text_of(files[MAPS]), line) != NULL;
}

static void read_all(const char *name)
{
    long word = 0;
    static long where = 4711;
    const char *status = text_of(files[STATUS]);
    CHECK(number_behind(status, "Pid:") == getpid() && number_behind(status, "PPid:") == getppid());
    CHECK(atol(text_of(files[STAT])) == getpid());
    CHECK(pread(files[MEMORY], &word, sizeof word, (off_t)(uintptr_t)&where) == sizeof word && word == where);
    where++;
    CHECK(prctl(PR_SET_NAME, name) == 0);
    CHECK(strncmp(text_of(files[NAME]), name, strlen(name)) == 0);
    CHECK(strstr(text_of(files[STAT]), name) != NULL);
    CHECK(pwrite(files[ADJUSTMENT], "7", 1, 0) == 1 && atol(text_of(files[ADJUSTMENT])) == 7);
    /* A mapping of this life: the file is about the memory that is, not about that which was. */
    char *memory = mmap(NULL, 12288, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + 4096, 4096, PROT_READ) == 0 && maps_has(memory + 4096));
    CHECK(munmap(memory, 12288) == 0 && !maps_has(memory + 4096));
    unsigned long pair[2];
    CHECK(pread(files[AUXILIARY], pair, sizeof pair, 0) == sizeof pair && pair[0] != 0);
    CHECK(*text_of(files[CHILDREN]) == 0 && strstr(text_of(files[NETWORK]), "lo:") != NULL);
    int below = openat(files[DIRECTORY], "stat", O_RDONLY);
    CHECK(below >= 0 && atol(text_of(below)) == getpid() && close(below) == 0);
    CHECK(lseek(files[STATUS], 0, SEEK_CUR) == 6 && lseek(again, 0, SEEK_CUR) == 6);
    CHECK(lseek(files[MEMORY], 0, SEEK_CUR) == 4096);
    CHECK(fcntl(files[STATUS], F_GETFD) == FD_CLOEXEC && fcntl(again, F_GETFD) == 0);
    CHECK((fcntl(files[STAT], F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == (O_RDONLY | O_NONBLOCK));
    CHECK((fcntl(files[ADJUSTMENT], F_GETFL) & O_ACCMODE) == O_RDWR);
    CHECK((fcntl(files[DIRECTORY], F_GETFL) & O_PATH) != 0);
}

int main(void)
{
    pthread_t other;
    char path[64], start[6];
    files[STATUS] = opened("/proc/self/status", O_RDONLY | O_CLOEXEC);
    files[STAT] = opened("/proc/self/stat", O_RDONLY | O_NONBLOCK);
    files[MAPS] = opened("/proc/self/maps", O_RDONLY);
    files[MEMORY] = opened("/proc/self/mem", O_RDONLY);
    files[ADJUSTMENT] = opened("/proc/self/oom_score_adj", O_RDWR);
    files[NAME] = opened("/proc/self/comm", O_RDONLY);
    files[AUXILIARY] = opened("/proc/self/auxv", O_RDONLY);
    snprintf(path, sizeof path, "/proc/self/task/%d/children", own_tid());
    files[CHILDREN] = opened(path, O_RDONLY);
    files[DIRECTORY] = opened("/proc/self", O_PATH | O_DIRECTORY);
    files[NETWORK] = opened("/proc/self/net/dev", O_RDONLY);
    CHECK(read(files[STATUS], start, 6) == 6 && memcmp(start, "Name:\t", 6) == 0);
    CHECK((again = dup(files[STATUS])) >= 0);
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
    await(&has_opened);
    static const char *const names[] = {"first life", "second life", "third life"};
    CHECK(lseek(files[MEMORY], 4096, SEEK_SET) == 4096);
    for (int life = 0; life < 3; life++) {
        if (life > 0)
            read_all(names[life]);
        if (life < 2)
            moment(names[life]);
    }
    goes = 1;
    await(&has_read);
    CHECK(pthread_join(other, NULL) == 0);
    puts("told of the life that is");
    return 0;
}
