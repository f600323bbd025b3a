/* Runs a command as process 1 of a container, as Docker does without options: in namespaces of its own, without
 * privileges, and under the list of system calls of Docker's default seccomp profile. Ends as the command does, with
 * status 255 if a signal killed it. Signals are passed on. If this process is killed, all of the container is.
 *
 *     container [--no-new-privileges] COMMAND ARGUMENT...
 *
 * What the profile forbids is written down from profiles/seccomp/default.json of https://github.com/moby/moby as of
 * version 27 (Apache-2.0), for x86-64 and a container without added capabilities. That file lists what is allowed; here
 * is the rest of the calls up to Linux 6.7. The user has an id of the outside, since only root could give the container
 * others; Docker's root has capabilities, but none that lifts one of these rules. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Calls that fail with EPERM, whatever their arguments. */
static const int forbidden[] = {
    SYS__sysctl, SYS_acct, SYS_add_key, SYS_bpf, SYS_clock_settime, SYS_delete_module, SYS_fanotify_init,
    SYS_finit_module, SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_fspick, SYS_get_mempolicy, SYS_init_module,
    SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup, SYS_ioperm, SYS_iopl, SYS_kcmp, SYS_kexec_file_load,
    SYS_kexec_load, SYS_keyctl, SYS_lookup_dcookie, SYS_mbind, SYS_migrate_pages, SYS_mount, SYS_mount_setattr,
    SYS_move_mount, SYS_move_pages, SYS_nfsservctl, SYS_open_by_handle_at, SYS_open_tree, SYS_perf_event_open,
    SYS_pidfd_getfd, SYS_pivot_root, SYS_process_madvise, SYS_quotactl, SYS_quotactl_fd, SYS_reboot, SYS_request_key,
    SYS_set_mempolicy, 450 /* set_mempolicy_home_node */, SYS_setdomainname, SYS_sethostname, SYS_setns,
    SYS_settimeofday, SYS_swapoff, SYS_swapon, SYS_sysfs, SYS_syslog, SYS_umount2, SYS_unshare, SYS_uselib,
    SYS_userfaultfd, SYS_ustat, SYS_vhangup, SYS_vserver,
};
/* Calls after this one fail with ENOSYS: the profile does not know them. */
enum { LAST_KNOWN = 456 };
static const unsigned personalities[] = {PER_LINUX, PER_LINUX32, UNAME26, UNAME26 | PER_LINUX32, 0xffffffff};
enum { FAMILY_VSOCK = 40 };
/* Spelled out, since CLONE_NEWTIME is not among them. */
static const unsigned namespaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                   CLONE_NEWNET | CLONE_NEWCGROUP;

static struct sock_filter program[400];
static unsigned short length;
static pid_t child;

static void fail(const char *what)
{
    fprintf(stderr, "container: %s: %s\n", what, strerror(errno));
    exit(125);
}

static void add(struct sock_filter instruction)
{
    if (length == sizeof program / sizeof *program)
        fail("the filter has no room");
    program[length++] = instruction;
}

static void load(unsigned offset)
{
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void answer(unsigned what)
{
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

/* The next `skipped` instructions are left out unless the comparison holds. */
static void only_if(unsigned short comparison, unsigned value, unsigned char skipped)
{
    add((struct sock_filter)BPF_JUMP(BPF_JMP | comparison | BPF_K, value, 0, skipped));
}

static void make_filter(void)
{
    const unsigned denied = SECCOMP_RET_ERRNO | EPERM, unknown = SECCOMP_RET_ERRNO | ENOSYS;
    const unsigned first = offsetof(struct seccomp_data, args[0]);
    const unsigned kinds = sizeof personalities / sizeof *personalities;

    /* Docker allows 32-bit calls, under the same rules; nothing here makes any. */
    load(offsetof(struct seccomp_data, arch));
    only_if(BPF_JEQ, AUDIT_ARCH_X86_64, 1);
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0));
    answer(denied);
    load(offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
        only_if(BPF_JEQ, (unsigned)forbidden[i], 1);
        answer(denied);
    }
    only_if(BPF_JEQ, SYS_clone3, 1);
    answer(unknown);
    only_if(BPF_JEQ, SYS_clone, 4);
    load(first);
    only_if(BPF_JSET, namespaces, 1);
    answer(denied);
    answer(SECCOMP_RET_ALLOW);
    only_if(BPF_JEQ, SYS_socket, 4);
    load(first);
    only_if(BPF_JEQ, FAMILY_VSOCK, 1);
    answer(denied);
    answer(SECCOMP_RET_ALLOW);
    only_if(BPF_JEQ, SYS_personality, (unsigned char)(2 + 2 * kinds));
    load(first);
    for (unsigned i = 0; i < kinds; i++) {
        only_if(BPF_JEQ, personalities[i], 1);
        answer(SECCOMP_RET_ALLOW);
    }
    answer(denied);
    only_if(BPF_JGT, LAST_KNOWN, 1);
    answer(unknown);
    answer(SECCOMP_RET_ALLOW);
}

static void write_file(const char *path, const char *text)
{
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text) || close(file) != 0)
        fail(path);
}

static void map_ids(unsigned user, unsigned group)
{
    char text[64];
    write_file("/proc/self/setgroups", "deny");
    snprintf(text, sizeof text, "%u %u 1", user, user);
    write_file("/proc/self/uid_map", text);
    snprintf(text, sizeof text, "%u %u 1", group, group);
    write_file("/proc/self/gid_map", text);
}

static void pass_on(int signal)
{
    kill(child, signal);
}

static void become(char **command, int no_new_privileges)
{
    struct sock_fprog filter = {0, program};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        fail("prctl");
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("proc", "/proc", "proc", 0, NULL) != 0)
        fail("mount");
    if (no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        fail("prctl");
    make_filter();
    filter.len = length;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        fail("seccomp");
    /* A user other than root loses all capabilities here. */
    execvp(*command, command);
    fail(*command);
}

int main(int argc, char **argv)
{
    static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGWINCH};
    const int no_new_privileges = argc > 1 && strcmp(argv[1], "--no-new-privileges") == 0;
    char **command = argv + 1 + no_new_privileges;
    const unsigned user = geteuid(), group = getegid();
    int status;

    if (*command == NULL) {
        fprintf(stderr, "usage: container [--no-new-privileges] COMMAND ARGUMENT...\n");
        return 125;
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC) != 0)
        fail("unshare");
    map_ids(user, group);
    child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0)
        become(command, no_new_privileges);
    for (unsigned i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        signal(passed_on[i], pass_on);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            fail("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}
