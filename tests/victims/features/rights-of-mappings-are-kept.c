/* What a mapping may become by mprotect(2) is after a restart what it was before, whatever it is a mapping of: files opened for
 * reading and for writing, private and shared ones, files in memory before and after they were sealed, segments, files that
 * have been deleted.
 *
 * expect: survive
 */
#include "mapped.h"
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

enum { PAGE = 4096, KINDS_MAX = 32, RIGHTS = 16 };

static struct kind {
    const char *name;
    char *at;
    char rights[RIGHTS];
} kinds[KINDS_MAX];
static int count;

/* What the mapping is, and may become: shared; readable, writable, executable. */
static void rights_of(const void *at, char *rights)
{
    static const char *const flags[] = {" ms", " mr", " mw", " me"};
    rights[0] = 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        strcat(rights, has_flag(at, flags[i]) ? flags[i] : " -");
}

static void keep(const char *name, void *at)
{
    CHECK(at != MAP_FAILED && at != (void *)-1 && count < KINDS_MAX);
    kinds[count].name = name;
    kinds[count++].at = at;
}

static void map(const char *name, int file, int access, int flags)
{
    keep(name, mmap(NULL, PAGE, access, flags, file, 0));
}

static int file_in(const char *path, int how)
{
    int file = open(path, how, 0600);
    CHECK(file >= 0);
    return file;
}

static void map_files(void)
{
    int writer = file_in("data", O_RDWR | O_CREAT), reader = file_in("data", O_RDONLY);
    int other = file_in("other", O_RDWR | O_CREAT);
    CHECK(ftruncate(writer, PAGE) == 0 && ftruncate(other, PAGE) == 0);
    map("private, to read", reader, PROT_READ, MAP_PRIVATE);
    map("private, closed off", reader, PROT_NONE, MAP_PRIVATE);
    map("private, written", reader, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    *kinds[count - 1].at = 1;
    map("private, executable", reader, PROT_READ | PROT_EXEC, MAP_PRIVATE);
    map("shared, of a reader", reader, PROT_READ, MAP_SHARED);
    map("shared, of a writer, to read", writer, PROT_READ, MAP_SHARED);
    map("shared, of a writer, closed off", writer, PROT_NONE, MAP_SHARED);
    map("shared, to write", other, PROT_READ | PROT_WRITE, MAP_SHARED);
    map("shared, of the same, to read", other, PROT_READ, MAP_SHARED);
    CHECK(close(writer) == 0 && close(reader) == 0 && close(other) == 0);
    CHECK((reader = open("other", O_RDONLY)) >= 0);
    map("shared, of the same, of a reader", reader, PROT_READ, MAP_SHARED);
    CHECK(close(reader) == 0);
    writer = file_in("deleted", O_RDWR | O_CREAT), reader = file_in("deleted", O_RDONLY);
    CHECK(ftruncate(writer, PAGE) == 0 && unlink("deleted") == 0);
    map("deleted, of a reader", reader, PROT_READ, MAP_SHARED);
    map("deleted, of a writer, to read", writer, PROT_READ, MAP_SHARED);
}

static void map_memory(void)
{
    char path[64];
    int plain = memfd_create("plain", 0), sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
    CHECK(plain >= 0 && sealed >= 0 && ftruncate(plain, PAGE) == 0 && ftruncate(sealed, PAGE) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", plain);
    int reader = file_in(path, O_RDONLY);
    map("memory file, to write", plain, PROT_READ | PROT_WRITE, MAP_SHARED);
    map("memory file, to read", plain, PROT_READ, MAP_SHARED);
    map("memory file, of a reader", reader, PROT_READ, MAP_SHARED);
    map("memory file, private", reader, PROT_READ, MAP_PRIVATE);
    map("to read, before the seal", sealed, PROT_READ, MAP_SHARED);
    CHECK(fcntl(sealed, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0);
    map("to read, after the seal", sealed, PROT_READ, MAP_SHARED);
    map("private, after the seal", sealed, PROT_READ, MAP_PRIVATE);
    int id = shmget(IPC_PRIVATE, PAGE, 0600);
    CHECK(id >= 0);
    keep("segment", shmat(id, NULL, 0));
    keep("segment, to read", shmat(id, NULL, SHM_RDONLY));
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    map("anonymous, shared, to read", -1, PROT_READ, MAP_SHARED | MAP_ANONYMOUS);
    map("anonymous, closed off", -1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
}

int main(void)
{
    char now[RIGHTS];
    map_files();
    map_memory();
    for (int i = 0; i < count; i++)
        rights_of(kinds[i].at, kinds[i].rights);
    for (int life = 0; life < 2; life++) {
        moment("mapped");
        for (int i = 0; i < count; i++) {
            rights_of(kinds[i].at, now);
            if (strcmp(now, kinds[i].rights) != 0)
                dprintf(2, "%s: %s, and now %s\n", kinds[i].name, kinds[i].rights, now);
            CHECK(strcmp(now, kinds[i].rights) == 0);
        }
    }
    puts("the same rights");
    return 0;
}
