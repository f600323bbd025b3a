/* main() for programs that name theirs ckpt_target(), as the libckpt paper demands (section 2). Without `=recover`, such a
 * program executes `standfast run`, which reads .ckptrc and starts the program once more. With `=recover`, it executes
 * `standfast restart`. A program that has its own main() does not use this one. */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern int ckpt_target(int, char **) __attribute__((weak));
/* The name that Fortran compilers give it. */
extern void ckpt_target_(void) __attribute__((weak));

#define RECOVER "=recover"

static int run_target(int count, char **words)
{
    if (ckpt_target)
        return ckpt_target(count, words);
    if (ckpt_target_) {
        ckpt_target_();
        return 0;
    }
    fputs("standfast: the program has neither main() nor ckpt_target()\n", stderr);
    return 127;
}

/* Executes `standfast COMMAND... -- PROGRAM WORD...`. Returns only if that fails. */
static void put_under_standfast(const char *command, int count, char **words)
{
    char **line = calloc((size_t)count + 5, sizeof *line);
    if (line == NULL)
        return;
    int length = 0;
    line[length++] = "standfast";
    line[length++] = (char *)command;
    line[length++] = "--ckptrc";
    line[length++] = "--";
    for (int word = 0; word < count; word++)
        line[length++] = words[word];
    execvp("standfast", line);
    free(line);
}

EXPORTED int main(int count, char **words)
{
    bool recovers = count > 1 && strcmp(words[1], RECOVER) == 0;
    if (recovers) {
        /* The checkpoint holds the arguments of the run. */
        put_under_standfast("restart", 1, words);
        perror("standfast: cannot execute the command `standfast` to recover the program; is it in PATH?");
        return 127;
    }
    if (standfast_header() == NULL) {
        put_under_standfast("run", count, words);
        perror("standfast: the program runs without checkpoints, since the command `standfast` is not in PATH");
    }
    return run_target(count, words);
}
