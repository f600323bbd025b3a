/* Steps on locks of files: of flock(2), of a process and of an open description, and leases. */
#include "interpreter.h"
#include <sys/file.h>

/* flock SLOT OPERATION */
static long do_flock(const long *a)
{
    return flock(fd_of(a[0]), (int)a[1] | LOCK_NB);
}

/* lock SLOT COMMAND TYPE START LENGTH. The command is F_SETLK or F_OFD_SETLK. */
static long do_lock(const long *a)
{
    struct flock lock = {.l_type = (short)a[2], .l_whence = SEEK_SET, .l_start = a[3], .l_len = a[4]};
    return fcntl(fd_of(a[0]), (int)a[1], &lock);
}

/* lease SLOT TYPE */
static long do_lease(const long *a)
{
    return fcntl(fd_of(a[0]), F_SETLEASE, a[1]);
}

const struct operation lock_operations[] = {
    {"flock", do_flock},
    {"lock", do_lock},
    {"lease", do_lease},
    {0},
};
