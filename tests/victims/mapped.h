/* What the kernel says of a mapping of this process, for victims about memory. */
#ifndef STANDFAST_VICTIM_MAPPED_H
#define STANDFAST_VICTIM_MAPPED_H

#include "check.h"

/* The line of /proc/self/smaps that begins with `key`, of the mapping that holds `address`; without the key. */
static inline void told_of(const void *address, const char *key, char *answer, size_t size)
{
    char line[512];
    unsigned long start, end;
    int inside = 0, found = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file != NULL);
    while (!found && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            inside = start <= (unsigned long)address && (unsigned long)address < end;
        else if (inside && strncmp(line, key, strlen(key)) == 0)
            found = snprintf(answer, size, "%s", line + strlen(key)) > 0;
    }
    CHECK(fclose(file) == 0 && found);
}

/* Whether the mapping that holds `address` has a flag, by the kernel's two letters for it. */
static inline int has_flag(const void *address, const char *flag)
{
    char flags[256];
    told_of(address, "VmFlags:", flags, sizeof flags);
    return strstr(flags, flag) != NULL;
}

#endif
