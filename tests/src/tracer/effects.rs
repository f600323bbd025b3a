//! The system calls of a supervisor that have an effect on the world, and which of them are about its files.

use nix::libc;
use nix::unistd::Pid;
use std::fs;
use std::path::Path;

/// A call with an effect outside the supervisor's own memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effect {
    number: i64,
    /// Its name.
    pub(super) name: &'static str,
    object: Object,
}

/// What a call acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    /// The program, or another process.
    Process,
    /// The descriptor in its first argument.
    Descriptor,
    /// A new file, if the flags in its third argument say so.
    Opening,
    /// A name: one is made or replaced.
    Name,
    /// A name: one is removed, which takes no space.
    OldName,
}

const fn effect(number: i64, name: &'static str, object: Object) -> Effect {
    Effect { number, name, object }
}

const EFFECTS: [Effect; 32] = [
    effect(libc::SYS_ptrace, "ptrace", Object::Process),
    effect(libc::SYS_process_vm_readv, "process_vm_readv", Object::Process),
    effect(libc::SYS_process_vm_writev, "process_vm_writev", Object::Process),
    effect(libc::SYS_pidfd_getfd, "pidfd_getfd", Object::Process),
    effect(libc::SYS_pidfd_send_signal, "pidfd_send_signal", Object::Process),
    effect(libc::SYS_kill, "kill", Object::Process),
    effect(libc::SYS_tgkill, "tgkill", Object::Process),
    effect(libc::SYS_fork, "fork", Object::Process),
    effect(libc::SYS_vfork, "vfork", Object::Process),
    effect(libc::SYS_clone, "clone", Object::Process),
    effect(libc::SYS_clone3, "clone3", Object::Process),
    effect(libc::SYS_unshare, "unshare", Object::Process),
    effect(libc::SYS_setns, "setns", Object::Process),
    effect(libc::SYS_mount, "mount", Object::Process),
    effect(libc::SYS_write, "write", Object::Descriptor),
    effect(libc::SYS_pwrite64, "pwrite64", Object::Descriptor),
    effect(libc::SYS_writev, "writev", Object::Descriptor),
    effect(libc::SYS_pwritev, "pwritev", Object::Descriptor),
    effect(libc::SYS_pwritev2, "pwritev2", Object::Descriptor),
    effect(libc::SYS_fsync, "fsync", Object::Descriptor),
    effect(libc::SYS_fdatasync, "fdatasync", Object::Descriptor),
    effect(libc::SYS_sync_file_range, "sync_file_range", Object::Descriptor),
    effect(libc::SYS_ftruncate, "ftruncate", Object::Descriptor),
    effect(libc::SYS_fallocate, "fallocate", Object::Descriptor),
    effect(libc::SYS_openat, "openat", Object::Opening),
    effect(libc::SYS_mkdirat, "mkdirat", Object::Name),
    effect(libc::SYS_rename, "rename", Object::Name),
    effect(libc::SYS_renameat, "renameat", Object::Name),
    effect(libc::SYS_renameat2, "renameat2", Object::Name),
    effect(libc::SYS_linkat, "linkat", Object::Name),
    effect(libc::SYS_unlink, "unlink", Object::OldName),
    effect(libc::SYS_unlinkat, "unlinkat", Object::OldName),
];

impl Effect {
    /// The call that a thread is about to make, if it has an effect.
    pub(super) fn of(registers: &libc::user_regs_struct) -> Option<Self> {
        let number = registers.orig_rax.cast_signed();
        let effect = EFFECTS.into_iter().find(|effect| effect.number == number)?;
        let creates = registers.rdx & u64::from(libc::O_CREAT.cast_unsigned()) != 0;
        (effect.object != Object::Opening || creates).then_some(effect)
    }

    /// Whether it changes something in the folder `images`. Names count always: a supervisor changes no others.
    pub(super) fn changes_files_in(&self, supervisor: Pid, registers: &libc::user_regs_struct, images: &Path) -> bool {
        match self.object {
            Object::Process => false,
            Object::Opening | Object::Name | Object::OldName => true,
            Object::Descriptor => fs::read_link(format!("/proc/{supervisor}/fd/{}", registers.rdi))
                .is_ok_and(|file| file.starts_with(images)),
        }
    }

    /// Whether a full disk could make it fail.
    pub(super) fn takes_space(&self) -> bool {
        matches!(self.object, Object::Descriptor | Object::Opening | Object::Name)
    }
}
