/* Files of /proc, held open, that must tell of whoever reads them: of the life that is, under the ids that it has. */
#ifndef STANDFAST_VICTIM_PROC_FILES_H
#define STANDFAST_VICTIM_PROC_FILES_H

#include "check.h"
#include <fcntl.h>

/* All that a file holds, read through a descriptor without moving it. */
static inline const char *text_of(int file)
{
    static char text[1 << 18];
    size_t filled = 0;
    for (;;) {
        ssize_t length = pread(file, text + filled, sizeof text - 1 - filled, (off_t)filled);
        CHECK(length >= 0);
        if (length == 0)
            break;
        filled += (size_t)length;
    }
    text[filled] = 0;
    return text;
}

/* The number behind a word at the beginning of a line. */
static inline long number_behind(const char *text, const char *word)
{
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, strlen(word)) == 0)
            return strtol(line + strlen(word), NULL, 10);
    }
    CHECK(!"the word is there");
    return -1;
}

static inline int opened(const char *path, int flags)
{
    int file = open(path, flags);
    CHECK(file >= 0);
    return file;
}

#endif
