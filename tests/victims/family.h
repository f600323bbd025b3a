/* What C victims of several processes share: children, what they wait in, and how they end. */
#ifndef STANDFAST_VICTIM_FAMILY_H
#define STANDFAST_VICTIM_FAMILY_H

#include "check.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Two pipes: one from the parent to the child, one back. */
struct line {
    int down[2], up[2];
};

static inline void open_line(struct line *line)
{
    CHECK(pipe(line->down) == 0 && pipe(line->up) == 0);
}

/* Keeps the child's ends only. */
static inline void be_child(struct line *line)
{
    CHECK(close(line->down[1]) == 0 && close(line->up[0]) == 0);
}

/* Keeps the parent's ends only. */
static inline void be_parent(struct line *line)
{
    CHECK(close(line->down[0]) == 0 && close(line->up[1]) == 0);
}

static inline void put(int to, int word)
{
    CHECK(write(to, &word, sizeof word) == sizeof word);
}

static inline int get(int from)
{
    int word;
    CHECK(read(from, &word, sizeof word) == sizeof word);
    return word;
}

/* Waits for the other side to close its end. */
static inline void await_silence(int from)
{
    char byte;
    CHECK(read(from, &byte, 1) == 0);
}

/* The letter that /proc shows for a process: R, S, D, T, Z. */
static inline char state_of(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0);
    ssize_t length = read(file, text, sizeof text - 1);
    CHECK(length > 0 && close(file) == 0);
    text[length] = 0;
    char *name_end = strrchr(text, ')');
    CHECK(name_end != NULL);
    return name_end[2];
}

static inline void await_state(pid_t pid, char letter)
{
    while (state_of(pid) != letter)
        usleep(200);
}

/* Waits until a process sleeps in the system call `number`. */
static inline void await_call_of(pid_t pid, long number)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/syscall", pid);
    for (;;) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        CHECK(file >= 0);
        ssize_t length = read(file, text, sizeof text - 1);
        CHECK(close(file) == 0);
        text[length > 0 ? length : 0] = 0;
        if (text[0] >= '0' && text[0] <= '9' && atol(text) == number)
            return;
        usleep(200);
    }
}

/* Waits for the end of a child, which must exit with `code`. */
static inline void reap(pid_t child, int code)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

/* Waits for the end of a child, which must die of `signal`. */
static inline void reap_killed(pid_t child, int signal)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal);
}

/* Memory that all processes made from now on share. */
static inline void *share(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

#endif
