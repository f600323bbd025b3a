/* What the files of the interpreter share: the actors and what all of them see, slots, and the words of an answer.
 *
 * A script is one step a line: ACTOR OPERATION NUMBER... An actor is a process or a thread. A step never fails: its
 * errno is an observation like any other, so any script is valid, also one from which lines were removed. */
#ifndef STANDFAST_DIFFERENTIAL_H
#define STANDFAST_DIFFERENTIAL_H

#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>

enum {
    ACTORS = 12,
    /* Descriptors that steps make have these numbers in each process. */
    FIRST_FD = 100,
    SLOTS = 32,
    /* The memfd with the state, open in each process. */
    STATE_FD = 99,
    /* Mappings that steps make lie at fixed addresses, this far from each other. */
    MAPPINGS = 24,
    PAGE = 4096,
    ARGUMENTS = 8,
    STEP_BYTES = 200,
    ANSWER_BYTES = 1 << 18,
    SCRIPT_BYTES = 1 << 16,
    /* System V objects of each kind, and POSIX message queues. */
    OBJECTS = 4,
    SIGNALS = 65,
};

#define MAPPING_BYTES 0x4000000ul
#define FIRST_MAPPING 0x100000000000ul

struct actor {
    /* It was made and has not been seen to have ended. */
    bool is_there;
    bool is_stopped;
    /* It waits in a call that another actor's step ends. */
    bool is_busy;
    /* Its process has executed a program since it was made. */
    bool has_executed;
    /* The actor that is the main thread of its process. */
    int process;
    pid_t pid, tid;
    /* The number of steps that it was asked to do, and did. Both are waited for with futex(2). */
    uint32_t asked, answered;
    /* How often its process has handled each signal; valid for main threads. */
    unsigned handled[SIGNALS];
    char step[STEP_BYTES];
    size_t length;
    char answer[ANSWER_BYTES];
};

struct shared_state {
    /* The program's executable and its first working directory. */
    char executable[4096], base[4096];
    /* The rest of the script. */
    char script[SCRIPT_BYTES];
    size_t at;
    /* Moments passed so far. */
    int moments;
    bool has_posix_queues;
    int segments[OBJECTS], semaphores[OBJECTS], queues[OBJECTS];
    struct actor actors[ACTORS];
};

/* At a fixed address, so that it can be mapped again after an execve(2). */
#define state ((struct shared_state *)0x0f0000000000)

/* The number of the calling actor. */
extern __thread int me;

struct operation {
    const char *name;
    long (*perform)(const long *argument);
};

/* Each table ends with an operation without a name. */
extern const struct operation actor_operations[], memory_operations[], file_operations[], lock_operations[],
    channel_operations[], event_operations[], socket_operations[], connection_operations[], terminal_operations[],
    signal_operations[], timer_operations[], process_operations[], shared_operations[], observations[];

/* Adds words to the answer of the calling actor. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* Does a step, after its actor's number, and says what came of it. */
void perform(const char *step);

/* Does what it is asked, for ever. */
_Noreturn void act(int number);

/* Takes the calling process's place among the actors: after the start, a fork or an execve(2). */
void take_place(int number, int process);

/* Names a process by its actor. The text is valid until the next call of the same thread. */
const char *who(pid_t pid);

/* Returns the pid or the tid of an actor, or one that nobody has. */
pid_t pid_of(long actor);
pid_t tid_of(long actor);

/* Reads a file of /proc, or any other. Returns the number of bytes, of which the last is followed by a zero. */
size_t read_text(const char *path, char *text, size_t size);

/* Moves a fresh descriptor to a slot. Returns 0, or -1 if `fd` is -1. */
int place(int fd, long slot);

static inline int fd_of(long slot)
{
    return FIRST_FD + (int)((unsigned long)slot % SLOTS);
}

static inline char *mapping(long slot)
{
    return (char *)(FIRST_MAPPING + (unsigned long)slot % MAPPINGS * MAPPING_BYTES);
}

/* Makes the pattern that belongs to a seed. */
void make_pattern(unsigned char *bytes, size_t length, long seed);

/* Runs `body` and returns the signal with which an access to memory in it failed, or 0. */
int guarded(void (*body)(void *), void *argument);
void catch_faults(void);

/* The path of a numbered file, directory, named pipe or socket. */
const char *path_of(long number);

/* Makes a description of an open file nonblocking, and undoes it. Steps never block. */
int never_wait(int fd);
void wait_again(int fd, int flags);

/* Returns what /proc/PID/fd shows of a descriptor, without numbers that differ from run to run. */
const char *kind_of(int fd);

/* Returns whether what is read from a descriptor has ids or times in it. Other steps read it then. */
bool is_structured(int fd);

/* Waits until what was written to a terminal has arrived. */
void settle_terminal(int fd);

/* Says how many bytes there are, and their checksum. */
void say_bytes(const void *bytes, ssize_t length);

/* Has the director open all POSIX message queues: a job that gets an IPC namespace of its own finds there only those that
 * somebody has open (docs/states.md). */
void hold_posix_queues(void);

/* Removes what would outlive the program. */
void remove_shared_objects(void);

/* What the parts of an observation say. */
void observe_process(void);
void observe_task(void);
void observe_signals(void);
void observe_memory(void);
void observe_descriptors(void);
void observe_socket(int fd);
void observe_terminal(int fd);
void observe_shared_objects(void);
void observe_timers(void);

#endif
