/* What can be observed of the mappings that steps have made: where they are, their rights and flags, and their
 * contents. */
#include "interpreter.h"
#include <sys/syscall.h>
#include <sys/uio.h>

/* Flags of a mapping that differ: `sd` and `uw` belong to the tracking of dirty pages, `ac`
 * depends on what the rights once were, and `gu` on which areas were joined. Known: `gd` (MAP_GROWSDOWN) is kept of
 * the main stack only, and `sh` is lost where a seal forbids writing. */
static const char *const LEFT_OUT[] = {"sd", "uw", "ac", "gu", "gd", "sh"};

struct area {
    unsigned long start, end, offset;
    /* The file's path, if it is in the working folder. */
    char rights[8], name[256], path[256], flags[160];
    bool is_there;
};

/* Returns where the contents of an area end. What lies beyond the end of a file, in its last page, is not kept by the
 * kernel either, once the page has left memory, nor of a memfd by a restart (docs/states.md). The length of a deleted
 * file is unknown, so its last page is left out. */
static unsigned long end_of(const struct area *area)
{
    struct stat found;
    unsigned long last = area->start;
    unsigned char byte;
    struct iovec to = {&byte, 1}, from = {NULL, 1};
    if (area->path[0] != '\0' && stat(area->path, &found) == 0)
        return area->start + (unsigned long)found.st_size - area->offset;
    if (strcmp(area->name, "/deleted") != 0 && strncmp(area->name, "/memfd:", 7) != 0)
        return area->end;
    for (from.iov_base = (void *)last; last < area->end && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
         from.iov_base = (void *)last)
        last += PAGE;
    return last - PAGE;
}

/* Adds a page's contents to a checksum. Returns whether it can be read. */
static bool fold_page(uint64_t *sum, unsigned long address, unsigned long end)
{
    unsigned char bytes[PAGE];
    struct iovec to = {bytes, sizeof bytes}, from = {(void *)address, sizeof bytes};
    // The kernel reads it, so that a guard or the end of a file means an error and no signal.
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)sizeof bytes)
        return false;
    *sum = fold(*sum, bytes, address >= end ? 0 : end - address < sizeof bytes ? end - address : sizeof bytes);
    return true;
}

/* Says for each run of pages that can be read, or cannot, how long it is. */
static void say_contents(const struct area *area)
{
    uint64_t sum = FOLD_START;
    unsigned long end = end_of(area);
    for (unsigned long at = area->start; at < area->end;) {
        unsigned long begin = at;
        bool is_readable = fold_page(&sum, at, end);
        for (at += PAGE; at < area->end && fold_page(&sum, at, end) == is_readable; at += PAGE)
            ;
        say(" %lu%s", (at - begin) / PAGE, is_readable ? "r" : "-");
    }
    say(" %016lx", (unsigned long)sum);
}

/* The policy of shared memory belongs to the memory. That of a part may reach further after a restart (docs/states.md). */
static void say_policy(const struct area *area)
{
    int policy = 0;
    if (area->rights[3] == 'p' && syscall(SYS_get_mempolicy, &policy, NULL, 0, area->start, 2) == 0 && policy != 0)
        say(" policy %d", policy);
}

static void say_area(const struct area *area)
{
    if (!area->is_there)
        return;
    unsigned long slot = (area->start - FIRST_MAPPING) / MAPPING_BYTES;
    say("\n  mapping %lu page %lu: %lu pages %s offset %lx %s flags%s", slot,
        (area->start - FIRST_MAPPING) % MAPPING_BYTES / PAGE, (area->end - area->start) / PAGE, area->rights,
        area->offset, area->name, area->flags);
    say_policy(area);
    say_contents(area);
}

/* Joins an area to the one before, if only the kernel's bookkeeping separates them. */
static bool joins(struct area *before, const struct area *next)
{
    bool has_offset = next->name[0] == '/';
    if (!before->is_there || before->end != next->start || strcmp(before->rights, next->rights) != 0
        || strcmp(before->name, next->name) != 0 || strcmp(before->flags, next->flags) != 0
        || (has_offset && before->offset + (before->end - before->start) != next->offset))
        return false;
    before->end = next->end;
    return true;
}

static void take_flags(struct area *area, const char *line)
{
    for (const char *at = line + strlen("VmFlags:"); *at != '\0';) {
        char flag[4] = "";
        int length = 0;
        if (sscanf(at, " %3s%n", flag, &length) != 1)
            break;
        at += length;
        bool is_left_out = false;
        for (size_t each = 0; each < sizeof LEFT_OUT / sizeof *LEFT_OUT; each++)
            is_left_out |= strcmp(flag, LEFT_OUT[each]) == 0;
        if (!is_left_out)
            snprintf(area->flags + strlen(area->flags), sizeof area->flags - strlen(area->flags), " %s", flag);
    }
}

static void take_name(struct area *area, const char *name)
{
    size_t base = strlen(state->base);
    bool is_inside = strncmp(name, state->base, base) == 0 && name[base] == '/';
    // The key of a System V segment comes from the working folder.
    bool is_segment = strncmp(name, "/SYSV", 5) == 0;
    // Shared memory and deleted files come back as memory and files of other names (docs/restart.md, docs/files.md).
    bool is_shared = strncmp(name, "/dev/zero (deleted)", 19) == 0 || strncmp(name, "/memfd:shared memory", 20) == 0;
    // So does a private mapping, as a copy that the job kept of a file with code.
    bool is_kept = !is_inside && strstr(name, "/images/keepsake-") != NULL;
    bool is_deleted = is_kept
        || (!is_segment && strncmp(name, "/memfd:", 7) != 0 && strstr(name, " (deleted)") != NULL);
    // A socket shows its inode number.
    bool is_socket = strncmp(name, "socket:[", 8) == 0;
    const char *shown = is_segment   ? "/segment"
                        : is_shared  ? "/shared"
                        : is_deleted ? "/deleted"
                        : is_socket  ? "/socket"
                        : is_inside  ? name + base
                                     : name;
    snprintf(area->name, sizeof area->name, "%s", shown);
    area->name[strcspn(area->name, "\n")] = '\0';
    if (is_inside && !is_deleted)
        snprintf(area->path, sizeof area->path, "%s", name);
    area->path[strcspn(area->path, "\n")] = '\0';
}

static bool is_own(unsigned long address)
{
    return address >= FIRST_MAPPING && address < FIRST_MAPPING + MAPPINGS * MAPPING_BYTES;
}

/* Takes a line of the list. Returns whether an area is complete. */
static bool take_line(struct area *area, const char *line)
{
    struct area found = {0};
    int name = 0;
    if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %n", &found.start, &found.end, found.rights, &found.offset, &name) >= 4
        && name > 0) {
        found.is_there = is_own(found.start);
        take_name(&found, line + name);
        if (found.name[0] != '/')
            found.offset = 0;
        *area = found;
        return false;
    }
    if (strncmp(line, "ProtectionKey:", 14) == 0) {
        int key = atoi(line + 14);
        if (key != 0)
            snprintf(area->flags, sizeof area->flags, " key-%d", key);
    }
    if (strncmp(line, "VmFlags:", 8) != 0)
        return false;
    take_flags(area, line);
    return area->is_there;
}

enum { AREAS_MAX = 512 };

void observe_memory(void)
{
    static struct area areas[AREAS_MAX];
    static char line[8192];
    struct area area = {0};
    size_t count = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (take_line(&area, line) && !(count > 0 && joins(&areas[count - 1], &area)) && count < AREAS_MAX)
            areas[count++] = area;
    CHECK(fclose(file) == 0);
    // Reading contents changes the list, so that comes last.
    for (size_t each = 0; each < count; each++)
        say_area(&areas[each]);
}
