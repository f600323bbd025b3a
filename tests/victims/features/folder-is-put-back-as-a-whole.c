/* A folder that goes with the job comes back as a whole: files that nobody has open, whether overwritten, renamed, removed or
 * new since, directories, symbolic links, rights and times; what is open or mapped in it as well.
 *
 * expect: survive
 * run: --save-folder data
 */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>

static const struct timespec times[2] = {{1000000000, 0}, {1234567890, 123456789}};
static int opened;
static volatile char *mapped;

static void put(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text) && close(file) == 0);
}

static void expect(const char *path, const char *text)
{
    char found[64];
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    ssize_t length = read(file, found, sizeof found - 1);
    CHECK(length == (ssize_t)strlen(text) && memcmp(found, text, (size_t)length) == 0 && close(file) == 0);
}

static int names_in(const char *path)
{
    int names = 0;
    DIR *directory = opendir(path);
    CHECK(directory != NULL);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        names += entry->d_name[0] != '.';
    CHECK(closedir(directory) == 0);
    return names;
}

static void begin(void)
{
    CHECK(mkdir("data", 0750) == 0 && mkdir("data/deep", 0700) == 0 && mkdir("data/empty", 0700) == 0);
    put("data/one", "one");
    put("data/deep/two", "two, which is longer");
    put("data/read-only", "not to be written");
    CHECK(chmod("data/read-only", 0400) == 0 && utimensat(AT_FDCWD, "data/read-only", times, 0) == 0);
    CHECK(symlink("one", "data/link") == 0);
    put("data/mapped", "mapped here");
    CHECK((opened = open("data/log", O_RDWR | O_CREAT | O_APPEND, 0600)) >= 0 && write(opened, "begun\n", 6) == 6);
    int file = open("data/mapped", O_RDWR);
    CHECK((mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) != MAP_FAILED && close(file) == 0);
}

static void expect_begun(void)
{
    struct stat status;
    char target[8];
    expect("data/one", "one");
    expect("data/deep/two", "two, which is longer");
    expect("data/read-only", "not to be written");
    expect("data/mapped", "mapped here");
    expect("data/log", "begun\n");
    CHECK(stat("data/read-only", &status) == 0 && (status.st_mode & 07777) == 0400);
    CHECK(status.st_mtim.tv_sec == times[1].tv_sec && status.st_mtim.tv_nsec == times[1].tv_nsec);
    CHECK(readlink("data/link", target, sizeof target) == 3 && memcmp(target, "one", 3) == 0);
    CHECK(stat("data", &status) == 0 && (status.st_mode & 07777) == 0750);
    CHECK(names_in("data") == 7 && names_in("data/deep") == 1 && names_in("data/empty") == 0);
}

/* As databases and build tools do it. */
static void change(void)
{
    put("data/new", "new");
    CHECK(rename("data/new", "data/one") == 0 && unlink("data/deep/two") == 0 && rmdir("data/deep") == 0);
    CHECK(rename("data/read-only", "data/renamed") == 0 && chmod("data/renamed", 0600) == 0 && rmdir("data/empty") == 0);
    put("data/renamed", "overwritten");
    CHECK(mkdir("data/more", 0700) == 0 && chmod("data", 0700) == 0);
    put("data/more/three", "three");
    CHECK(unlink("data/link") == 0 && symlink("renamed", "data/link") == 0 && write(opened, "changed\n", 8) == 8);
    mapped[0] = 'M';
}

static void expect_changed(void)
{
    char target[8];
    struct stat status;
    expect("data/one", "new");
    expect("data/renamed", "overwritten");
    expect("data/more/three", "three");
    expect("data/mapped", "Mapped here");
    expect("data/log", "begun\nchanged\n");
    CHECK(readlink("data/link", target, sizeof target) == 7 && memcmp(target, "renamed", 7) == 0);
    CHECK(stat("data", &status) == 0 && (status.st_mode & 07777) == 0700);
    CHECK(names_in("data") == 6 && names_in("data/more") == 1);
}

int main(void)
{
    moment("not there yet");
    CHECK(access("data", F_OK) != 0);
    begin();
    moment("begun");
    expect_begun();
    change();
    moment("changed");
    expect_changed();
    CHECK(unlink("data/one") == 0);
    puts("as a whole");
    return 0;
}
