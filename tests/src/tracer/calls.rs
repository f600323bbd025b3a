//! The system calls of a supervisor: their names, and which of them change files.

use nix::libc;
use nix::unistd::Pid;
use std::fs;
use std::path::Path;

/// A call that a thread is about to make.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    known: Option<Known>,
}

/// A system call that the tracer recognizes.
#[derive(Debug, Clone, Copy)]
struct Known {
    number: i64,
    name: &'static str,
    object: Object,
}

/// The kind of file object that a call acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    /// No file, or one that the call only reads.
    Else,
    /// The descriptor in its first argument.
    Descriptor,
    /// A new file, if the flags in its third argument request one.
    Opening,
    /// A name that the call creates or replaces.
    Name,
    /// A name that the call removes, which takes no space.
    OldName,
}

const fn known(number: i64, name: &'static str, object: Object) -> Known {
    Known { number, name, object }
}

const KNOWN: [Known; 30] = [
    known(libc::SYS_write, "write", Object::Descriptor),
    known(libc::SYS_pwrite64, "pwrite64", Object::Descriptor),
    known(libc::SYS_writev, "writev", Object::Descriptor),
    known(libc::SYS_pwritev, "pwritev", Object::Descriptor),
    known(libc::SYS_pwritev2, "pwritev2", Object::Descriptor),
    known(libc::SYS_fsync, "fsync", Object::Descriptor),
    known(libc::SYS_fdatasync, "fdatasync", Object::Descriptor),
    known(libc::SYS_sync_file_range, "sync_file_range", Object::Descriptor),
    known(libc::SYS_ftruncate, "ftruncate", Object::Descriptor),
    known(libc::SYS_fallocate, "fallocate", Object::Descriptor),
    known(libc::SYS_openat, "openat", Object::Opening),
    known(libc::SYS_mkdirat, "mkdirat", Object::Name),
    known(libc::SYS_rename, "rename", Object::Name),
    known(libc::SYS_renameat, "renameat", Object::Name),
    known(libc::SYS_renameat2, "renameat2", Object::Name),
    known(libc::SYS_linkat, "linkat", Object::Name),
    known(libc::SYS_unlink, "unlink", Object::OldName),
    known(libc::SYS_unlinkat, "unlinkat", Object::OldName),
    known(libc::SYS_ptrace, "ptrace", Object::Else),
    known(libc::SYS_wait4, "wait4", Object::Else),
    known(libc::SYS_waitid, "waitid", Object::Else),
    known(libc::SYS_ioctl, "ioctl", Object::Else),
    known(libc::SYS_read, "read", Object::Else),
    known(libc::SYS_pread64, "pread64", Object::Else),
    known(libc::SYS_process_vm_readv, "process_vm_readv", Object::Else),
    known(libc::SYS_process_vm_writev, "process_vm_writev", Object::Else),
    known(libc::SYS_clone, "clone", Object::Else),
    known(libc::SYS_clone3, "clone3", Object::Else),
    known(libc::SYS_close, "close", Object::Else),
    known(libc::SYS_futex, "futex", Object::Else),
];

impl Call {
    /// Returns the call that a thread with these registers is about to make.
    pub(super) fn of(registers: &libc::user_regs_struct) -> Self {
        let number = registers.orig_rax.cast_signed();
        Self { known: KNOWN.into_iter().find(|known| known.number == number) }
    }

    /// Returns its name, for messages.
    pub(super) fn name(&self) -> &'static str {
        self.known.map_or("another call", |known| known.name)
    }

    /// Reports whether the call changes something in a folder. Names that are not relative to an open directory always
    /// count.
    pub(super) fn changes_files_in(&self, supervisor: Pid, registers: &libc::user_regs_struct, folder: &Path) -> bool {
        let Some(known) = self.known else { return false };
        let open = fs::read_link(format!("/proc/{supervisor}/fd/{}", registers.rdi as u32));
        let is_there = open.as_ref().is_ok_and(|file| file.starts_with(folder));
        match known.object {
            Object::Else => false,
            Object::Descriptor => is_there,
            Object::Opening => {
                registers.rdx & u64::from(libc::O_CREAT.cast_unsigned()) != 0 && (is_there || open.is_err())
            }
            Object::Name | Object::OldName => is_there || open.is_err(),
        }
    }

    /// Reports whether a full disk could make the call fail.
    pub(super) fn takes_space(&self) -> bool {
        self.known.is_some_and(|known| matches!(known.object, Object::Descriptor | Object::Opening | Object::Name))
    }
}
