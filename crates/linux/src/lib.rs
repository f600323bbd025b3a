//! The fence: every Linux system call that Standfast makes on behalf of a job, and nothing else.
